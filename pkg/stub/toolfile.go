package stub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

const remoteURL = "remote_url" // the transfer method whose files are not Dify's own

// UploadFile uploads the file at path as a tool file and returns its reference.
func (c *Client) UploadFile(ctx context.Context, path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolve path: %w", err)
	}
	if fi, err := os.Stat(path); err != nil || fi.IsDir() {
		return "", fmt.Errorf("local file not found: %s", path)
	}
	s, err := openFile(path)
	if err != nil {
		return "", err
	}
	defer s.content.Close()
	target, err := c.requestUpload(ctx, s, exposeExpiry())
	if err != nil {
		return "", fmt.Errorf("request file upload URL: %w", err)
	}
	file, err := c.post(ctx, target, s)
	if err != nil {
		return "", fmt.Errorf("upload file data: %w", err)
	}
	if file.reference == "" {
		return "", errors.New("upload response is missing reference")
	}
	if _, err := recordID(file.reference); err != nil {
		return "", err
	}
	return file.reference, nil
}

// PublicURL returns a link to a tool file that a browser can open.
func (c *Client) PublicURL(ctx context.Context, reference string) (string, error) {
	if reference == "" {
		return "", errors.New("file reference must not be empty")
	}
	file := map[string]any{"transfer_method": "tool_file", "reference": reference}
	g, err := c.requestDownload(ctx, file, true)
	if err != nil {
		return "", fmt.Errorf("request public download URL: %w", err)
	}
	if g.URL == "" {
		return "", errors.New("public file download response is missing download_url")
	}
	return g.URL, nil
}

// DownloadFile stores a file in dir and returns its path there.
func (c *Client) DownloadFile(ctx context.Context, method, referenceOrURL, dir string) (string, error) {
	key := "reference"
	if method == remoteURL {
		key = "url"
	}
	g, err := c.requestDownload(ctx, map[string]any{"transfer_method": method, key: referenceOrURL}, false)
	if err != nil {
		return "", fmt.Errorf("request file download URL: %w", err)
	}
	switch {
	case g.URL == "":
		return "", errors.New("signed file download response is missing download_url")
	case g.Filename == "":
		return "", errors.New("signed file download response is missing filename")
	}
	size := g.size()
	if method == remoteURL {
		size = sizeUnknown // what somebody said about a file elsewhere, some time ago
	}
	name, err := c.saveFree(ctx, g.URL, size, dir, localName(g.Filename))
	if err != nil {
		return "", fmt.Errorf("download file data: %w", err)
	}
	return filepath.Join(dir, name), nil
}

// saveFree downloads into dir, under name or the next free one.
func (c *Client) saveFree(ctx context.Context, target string, size int64, dir, name string) (string, error) {
	root, err := openDir(dir)
	if err != nil {
		return "", fmt.Errorf("create download directory: %w", err)
	}
	defer root.Close()
	file, err := newScratch(root)
	if err != nil {
		return "", fmt.Errorf("create file: %w", err)
	}
	defer file.discard()
	if err := c.fetch(ctx, target, size, file); err != nil {
		return "", err
	}
	name, err = file.claim(freeNames(name))
	if err != nil {
		return "", fmt.Errorf("write file: %w", err)
	}
	return name, nil
}

// requestDownload asks for a URL of the file that mapping describes: one for a
// browser (frontend) or one for the sandbox.
func (c *Client) requestDownload(ctx context.Context, mapping map[string]any, frontend bool) (grant, error) {
	ask := func(key string) (grant, error) {
		return c.requestGrant(ctx, "file download request", map[string]any{"file": mapping, key: frontend})
	}
	g, err := ask("for_frontend")
	if !olderServer(err, http.StatusUnprocessableEntity) {
		return g, err
	}
	// Servers before 1.17 know the key by another name and forbid unknown ones.
	older, err2 := ask("for_external")
	if olderServer(err2, http.StatusUnprocessableEntity) && strings.Contains(err2.Error(), "for_external") {
		return g, err // not an older one: its first refusal is the true one
	}
	return older, err2
}

func (c *Client) requestGrant(ctx context.Context, op string, body map[string]any) (grant, error) {
	data, err := c.call(ctx, request{op: op, method: http.MethodPost, path: "/files/download-request", body: body})
	if err != nil {
		return grant{}, err
	}
	var g grant
	if err := json.Unmarshal(data, &g); err != nil {
		what := "parse download response"
		if _, config := body["config"]; config {
			what = "parse config download response"
		}
		return grant{}, fmt.Errorf("%s: %w", what, err)
	}
	return g, nil
}
