package stub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// PulledSkill is a skill that was pulled: its archive, and what was in it.
type PulledSkill struct {
	Name          string `json:"name"`
	ArchivePath   string `json:"archive_path"`
	DirectoryPath string `json:"directory_path"`
	Text          string `json:"skill_md"` // of SKILL.md, or "" if there is none
}

// PullSkills stores the named skills, or all, in dir: each as an archive and as
// a directory.
func (c *Client) PullSkills(ctx context.Context, names []string, dir string) ([]PulledSkill, error) {
	return pullAll(ctx, c, Skill, names, dir, c.pullSkill)
}

// pullSkill changes nothing that can be seen in root before the skill is
// complete; then the archive and the directory appear.
func (c *Client) pullSkill(ctx context.Context, root *os.Root, name, dir string) (PulledSkill, error) {
	file, err := newScratch(root)
	if err != nil {
		return PulledSkill{}, fmt.Errorf("config skill %q: write archive: %w", name, err)
	}
	defer file.discard()
	if err := c.fetchConfig(ctx, Skill, name, file); err != nil {
		return PulledSkill{}, err
	}
	staged := newName()
	defer root.RemoveAll(staged) // nothing to do after a success
	text, err := c.stageSkill(ctx, root, staged, file.File)
	if err != nil {
		return PulledSkill{}, fmt.Errorf("config skill %q: %w", name, err)
	}
	if err := file.replace(name + ".zip"); err != nil {
		return PulledSkill{}, fmt.Errorf("config skill %q: write archive: %w", name, err)
	}
	if err := swapIn(root, staged, name); err != nil {
		return PulledSkill{}, fmt.Errorf("config skill %q: create skill directory: %w", name, err)
	}
	return PulledSkill{
		Name:          name,
		ArchivePath:   filepath.Join(dir, name+".zip"),
		DirectoryPath: filepath.Join(dir, name),
		Text:          text,
	}, nil
}

// stageSkill extracts file into a new directory and returns the text of the skill.
func (c *Client) stageSkill(ctx context.Context, root *os.Root, staged string, file *os.File) (string, error) {
	if err := root.Mkdir(staged, 0o755); err != nil {
		return "", fmt.Errorf("create skill directory: %w", err)
	}
	dir, err := root.OpenRoot(staged)
	if err != nil {
		return "", fmt.Errorf("create skill directory: %w", err)
	}
	defer dir.Close()
	fi, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("extract skill archive: %w", err)
	}
	if err := unpack(ctx, dir, file, fi.Size(), c.limits.unpack); err != nil {
		return "", fmt.Errorf("extract skill archive: %w", err)
	}
	return readSkillText(dir)
}

func readSkillText(dir *os.Root) (string, error) {
	f, err := dir.Open(skillText)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", skillText, err)
	}
	defer f.Close()
	text, err := readAtMost(f, maxText)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", skillText, err)
	}
	return string(text), nil
}
