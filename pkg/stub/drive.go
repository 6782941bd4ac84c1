package stub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// DriveItem is one file of a drive, the storage of older servers.
type DriveItem struct {
	Key  string `json:"key,omitempty"`
	Size *int64 `json:"size,omitempty"`
	Type string `json:"mime_type,omitempty"`
	Hash string `json:"hash,omitempty"`
	URL  string `json:"download_url,omitempty"`
}

// PulledTarget is a drive prefix that was pulled.
type PulledTarget struct {
	Key  string `json:"key"`
	Path string `json:"local_path"`
}

// ListDrive lists the files whose keys start with prefix.
func (c *Client) ListDrive(ctx context.Context, prefix string) ([]DriveItem, error) {
	return c.driveManifest(ctx, prefix, false)
}

func (c *Client) driveManifest(ctx context.Context, prefix string, links bool) ([]DriveItem, error) {
	data, err := c.driveCall(ctx, request{
		op:     "drive manifest",
		method: http.MethodGet,
		path:   "/drive/manifest",
		query:  url.Values{"prefix": {prefix}, "include_download_url": {strconv.FormatBool(links)}},
	})
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []DriveItem `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("parse drive manifest: %w", err)
	}
	return list.Items, nil
}

// driveCall is call with the drive's form of a refusal.
func (c *Client) driveCall(ctx context.Context, r request) ([]byte, error) {
	data, err := c.call(ctx, r)
	if refusal := (*StatusError)(nil); errors.As(err, &refusal) {
		refusal.bracketed = true
	}
	return data, err
}

// PullDrive stores everything below each of the targets in base, or the whole
// drive if there is no target. Targets that are empty are left out of the result.
func (c *Client) PullDrive(ctx context.Context, targets []string, base string) ([]PulledTarget, error) {
	if len(targets) == 0 {
		targets = []string{""}
	}
	pulled := []PulledTarget{}
	for _, target := range targets {
		if target != "" {
			if err := checkKey(strings.Trim(target, "/")); err != nil {
				return nil, err
			}
		}
		items, err := c.driveManifest(ctx, target, true)
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			continue
		}
		if err := c.pullItems(ctx, items, base); err != nil {
			return nil, err
		}
		pulled = append(pulled, PulledTarget{Key: target, Path: filepath.Join(base, target)})
	}
	return pulled, nil
}

func (c *Client) pullItems(ctx context.Context, items []DriveItem, base string) error {
	root, err := openDir(base)
	if err != nil {
		return fmt.Errorf("create drive directory: %w", err)
	}
	defer root.Close()
	for _, item := range items {
		if err := c.pullItem(ctx, root, item); err != nil {
			return fmt.Errorf("pull drive file %q: %w", item.Key, err)
		}
	}
	return nil
}

func (c *Client) pullItem(ctx context.Context, root *os.Root, item DriveItem) error {
	if err := checkKey(item.Key); err != nil {
		return err
	}
	if item.URL == "" {
		return errors.New("drive item is missing download_url")
	}
	if err := root.MkdirAll(path.Dir(item.Key), 0o755); err != nil {
		return fmt.Errorf("create parent directory: %w", err)
	}
	dir, err := root.OpenRoot(path.Dir(item.Key))
	if err != nil {
		return fmt.Errorf("create parent directory: %w", err)
	}
	defer dir.Close()
	file, err := newScratch(dir)
	if err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	defer file.discard()
	g := grant{Size: item.Size}
	if err := c.fetch(ctx, item.URL, g.size(), file); err != nil {
		return err
	}
	if err := file.replace(path.Base(item.Key)); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return nil
}
