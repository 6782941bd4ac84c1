package stub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
)

// sizeUnknown is the size of a download that nobody told.
const sizeUnknown = -1

// fetch writes what a signed URL holds to w: exactly size bytes unless that is
// sizeUnknown.
func (c *Client) fetch(ctx context.Context, target string, size int64, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, c.limits.download)
	defer cancel()
	req, err := newSignedRequest(ctx, http.MethodGet, target, nil)
	if err != nil {
		return errors.New("download request failed: invalid signed download URL")
	}
	resp, err := c.download.Do(req)
	if err != nil {
		return dataFailure(ctx, "download request", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		body := readSome(resp.Body)
		return fmt.Errorf("download failed with status %d: %s", resp.StatusCode, c.scrub(string(body), target))
	}
	return c.receive(ctx, resp.Body, size, w)
}

// receive copies a download to w and checks its size. It stops one byte after
// the end, so that an endless body costs no more than an honest one.
func (c *Client) receive(ctx context.Context, body io.Reader, size int64, w io.Writer) error {
	limit := size
	if size == sizeUnknown {
		limit = c.limits.unsized
	}
	n, err := io.Copy(w, io.LimitReader(body, limit+1))
	switch {
	case isFileError(err):
		return fmt.Errorf("write download: %w", err)
	case err != nil:
		return dataFailure(ctx, "download request", err)
	case n > limit && size == sizeUnknown:
		return fmt.Errorf("download exceeds %d bytes", limit)
	case n > limit:
		return fmt.Errorf("download is longer than the announced %d bytes", size)
	case size != sizeUnknown && n != size:
		return fmt.Errorf("download has %d bytes instead of the announced %d", n, size)
	}
	return nil
}

// isFileError tells an error of the file written to from one of the network.
func isFileError(err error) bool {
	path := (*fs.PathError)(nil)
	return errors.As(err, &path)
}

// grant is the stub's leave to download one file.
type grant struct {
	Filename string `json:"filename"`
	Size     *int64 `json:"size"`
	URL      string `json:"download_url"`
}

// size returns the announced size. Servers write 0 or a negative number for a
// size that they do not know.
func (g grant) size() int64 {
	if g.Size == nil || *g.Size <= 0 {
		return sizeUnknown
	}
	return *g.Size
}
