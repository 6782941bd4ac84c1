package stub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
)

type driveCommit struct {
	Key string   `json:"key"`
	Ref *fileRef `json:"file_ref"`
}

// PushDrive uploads the file or directory at local to the key remote and
// returns the server's answer as it wrote it. kind says what a directory is:
// "skill" or "dir".
func (c *Client) PushDrive(ctx context.Context, local, remote, kind string) ([]byte, error) {
	local, err := filepath.Abs(local)
	if err != nil {
		return nil, fmt.Errorf("resolve path: %w", err)
	}
	fi, err := os.Stat(local)
	if err != nil {
		return nil, fmt.Errorf("local path not found: %s", local)
	}
	if err := checkDriveKind(kind, fi.IsDir()); err != nil {
		return nil, err
	}
	var items []driveCommit
	switch {
	case !fi.IsDir():
		items, err = c.pushDriveFiles(ctx, []driveFile{{path: local, key: remote}})
	case kind == "dir":
		items, err = c.pushDriveDir(ctx, local, remote)
	default:
		items, err = c.pushDriveSkill(ctx, local, remote)
	}
	if err != nil {
		return nil, err
	}
	return c.driveCall(ctx, request{
		op:     "drive commit",
		method: http.MethodPost,
		path:   "/drive/commit",
		body:   map[string]any{"items": items},
	})
}

func checkDriveKind(kind string, dir bool) error {
	switch {
	case dir && kind == "":
		return errors.New("directory drive push requires --kind skill or --kind dir")
	case dir && kind == "file":
		return errors.New("--kind file requires a file")
	case !dir && (kind == "skill" || kind == "dir"):
		return fmt.Errorf("--kind %s requires a directory", kind)
	}
	return nil
}

// driveFile is a local file and the key it gets.
type driveFile struct{ path, key string }

func (c *Client) pushDriveFiles(ctx context.Context, files []driveFile) ([]driveCommit, error) {
	var items []driveCommit
	for _, f := range files {
		s, err := openFile(f.path)
		if err != nil {
			return nil, err
		}
		item, err := c.pushDriveSource(ctx, s, f.key)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func (c *Client) pushDriveSource(ctx context.Context, s *source, key string) (driveCommit, error) {
	id, err := c.upload(ctx, s, nil)
	if err != nil {
		return driveCommit{}, fmt.Errorf("upload drive file %q: %w", key, err)
	}
	return driveCommit{Key: key, Ref: toolFile(id)}, nil
}

func (c *Client) pushDriveDir(ctx context.Context, local, remote string) ([]driveCommit, error) {
	none := func(string) bool { return false }
	tree, err := listTree(local, none, "drive push does not support symlinked files")
	if err != nil {
		return nil, err
	}
	if len(tree) == 0 {
		return nil, fmt.Errorf("directory has no regular files: %s", local)
	}
	var files []driveFile
	for _, f := range tree {
		files = append(files, driveFile{path: filepath.Join(local, f.name), key: below(remote, f.name)})
	}
	return c.pushDriveFiles(ctx, files)
}

// pushDriveSkill keeps a skill as its text and its archive.
func (c *Client) pushDriveSkill(ctx context.Context, local, remote string) ([]driveCommit, error) {
	text := filepath.Join(local, skillText)
	if fi, err := os.Stat(text); err != nil || !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("skill directory must contain %s: %s", skillText, local)
	}
	archive, err := openArchive(local, skillArchive)
	if err != nil {
		return nil, err
	}
	defer archive.content.Close()
	items, err := c.pushDriveFiles(ctx, []driveFile{{path: text, key: below(remote, skillText)}})
	if err != nil {
		return nil, err
	}
	item, err := c.pushDriveSource(ctx, archive, below(remote, skillArchive))
	if err != nil {
		return nil, err
	}
	return append(items, item), nil
}

// below is the key of name under a prefix.
func below(prefix, name string) string {
	return path.Join(strings.TrimRight(prefix, "/"), name)
}
