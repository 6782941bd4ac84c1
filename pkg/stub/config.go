package stub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// Kind is a kind of things that an agent's configuration holds.
type Kind string

// The kinds.
const (
	Skill Kind = "skill"
	File  Kind = "file"
)

// maxText bounds what is read as the text of a note or of variables.
const maxText = 16 << 20

// manifest is the part of the configuration that the client needs itself.
type manifest struct {
	Skills itemList `json:"skills"`
	Files  itemList `json:"files"`
	Note   string   `json:"note"`
}

type itemList struct {
	Items []struct {
		Name string `json:"name"`
	} `json:"items"`
}

// Manifest returns the agent's configuration as the server wrote it.
func (c *Client) Manifest(ctx context.Context) ([]byte, error) {
	return c.call(ctx, request{op: "config manifest", method: http.MethodGet, path: "/config/manifest"})
}

func (c *Client) readManifest(ctx context.Context) (manifest, error) {
	data, err := c.Manifest(ctx)
	if err != nil {
		return manifest{}, err
	}
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return manifest{}, fmt.Errorf("parse manifest: %w", err)
	}
	return m, nil
}

// names returns the names of one kind, in the order of the manifest.
func (m manifest) names(kind Kind) []string {
	list := m.Files
	if kind == Skill {
		list = m.Skills
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names
}

// Delete removes things from the configuration and returns the new manifest as
// the server wrote it. Local files stay.
func (c *Client) Delete(ctx context.Context, kind Kind, names []string) ([]byte, error) {
	var items []pushItem
	for _, name := range names {
		items = append(items, pushItem{Name: name})
	}
	return c.push(ctx, kind, items)
}

// PushEnv sends the text of a dotenv file, unparsed.
func (c *Client) PushEnv(ctx context.Context, text []byte) ([]byte, error) {
	body := map[string]any{"env_text": string(text)}
	return c.call(ctx, request{op: "config env update", method: http.MethodPatch, path: "/config/env", body: body})
}

// PushNote replaces the note.
func (c *Client) PushNote(ctx context.Context, text []byte) ([]byte, error) {
	body := map[string]any{"note": string(text)}
	return c.call(ctx, request{op: "config note update", method: http.MethodPut, path: "/config/note", body: body})
}

// PullNote writes the note to path and returns the absolute path.
func (c *Client) PullNote(ctx context.Context, path string) (string, error) {
	m, err := c.readManifest(ctx)
	if err != nil {
		return "", err
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolve path: %w", err)
	}
	if err := writeWhole(path, []byte(m.Note)); err != nil {
		return "", fmt.Errorf("write note: %w", err)
	}
	return path, nil
}

// writeWhole writes a file that its readers see old or new, never in part. It
// follows a link, and writes straight into a pipe or device.
func writeWhole(path string, data []byte) error {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
		return os.WriteFile(path, data, 0o644)
	}
	dir, err := openDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	file, err := newScratch(dir)
	if err != nil {
		return err
	}
	defer file.discard()
	if _, err := file.Write(data); err != nil {
		return err
	}
	return file.replace(filepath.Base(path))
}

// ReadText reads the text to push from the file at path, or from stdin if path
// is "-".
func ReadText(path string, stdin io.Reader) ([]byte, error) {
	what := "read stdin"
	if path != "-" {
		what = "read file"
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		defer f.Close()
		stdin = f
	}
	text, err := readAtMost(stdin, maxText)
	switch {
	case errors.Is(err, errTooLong):
		return nil, fmt.Errorf("%s: text exceeds %d bytes", what, maxText)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return text, nil
}
