package stub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
)

// pushItem sets one thing of the configuration, or deletes it.
type pushItem struct {
	Name string   `json:"name"`
	Ref  *fileRef `json:"file_ref"` // or nil to delete
}

type fileRef struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

// toolFile refers to a file that was uploaded.
func toolFile(id string) *fileRef { return &fileRef{Kind: "tool_file", ID: id} }

// push changes one list of the configuration.
func (c *Client) push(ctx context.Context, kind Kind, items []pushItem) ([]byte, error) {
	body := map[string][]pushItem{"skills": {}, "files": {}}
	body[string(kind)+"s"] = items
	return c.call(ctx, request{op: "config push", method: http.MethodPost, path: "/config/push", body: body})
}

// Push uploads the skill directories or files at paths and then sets them in
// the configuration, all or none. It returns the new manifest as the server
// wrote it.
func (c *Client) Push(ctx context.Context, kind Kind, paths []string) ([]byte, error) {
	var items []pushItem
	for _, path := range paths {
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("resolve path: %w", err)
		}
		name := filepath.Base(path)
		s, err := openPush(kind, path)
		if err != nil {
			return nil, err
		}
		id, err := c.upload(ctx, s, exposeExpiry())
		if err != nil {
			return nil, fmt.Errorf("upload config %s %q: %w", kind, name, err)
		}
		items = append(items, pushItem{Name: name, Ref: toolFile(id)})
	}
	data, err := c.push(ctx, kind, items)
	if err != nil {
		return nil, fmt.Errorf("push config %ss: %w", kind, err)
	}
	return data, nil
}

// openPush makes a source of what stands at path.
func openPush(kind Kind, path string) (*source, error) {
	if kind == Skill {
		return openSkill(path)
	}
	if fi, err := os.Stat(path); err != nil || fi.IsDir() {
		return nil, fmt.Errorf("config file path must be a regular file: %s", path)
	}
	return openFile(path)
}

// upload uploads s and returns the id of the new file. It closes s.
func (c *Client) upload(ctx context.Context, s *source, query map[string][]string) (string, error) {
	defer s.content.Close()
	target, err := c.requestUpload(ctx, s, query)
	if err != nil {
		return "", fmt.Errorf("request upload URL: %w", err)
	}
	file, err := c.post(ctx, target, s)
	if err != nil {
		return "", fmt.Errorf("upload data: %w", err)
	}
	if file.id == "" {
		return "", errors.New("upload response is missing id")
	}
	return file.id, nil
}

// openSkill makes a source of a skill directory: a zip with SKILL.md at its root.
func openSkill(path string) (*source, error) {
	if fi, err := os.Stat(path); err != nil || !fi.IsDir() {
		return nil, fmt.Errorf("config skill path must be a directory: %s", path)
	}
	if fi, err := os.Stat(filepath.Join(path, skillText)); err != nil || !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("config skill directory must contain %s: %s", skillText, path)
	}
	return openArchive(path, filepath.Base(path)+".zip")
}
