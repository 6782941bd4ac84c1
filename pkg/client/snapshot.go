package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// CodeSnapshotIncomplete is the code of an archive that arrived, but that the
// server did not vouch for. Whoever drops trailers on the way causes it too.
const CodeSnapshotIncomplete = "snapshot_incomplete"

// Saved is what the trailers of a save say of the archive.
type Saved struct {
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
	Skipped int64  `json:"skipped"` // entries left out: vanished or unreadable
	Changed int64  `json:"changed"` // files that changed while they were read
}

// Restored is the answer of restore.
type Restored struct {
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes_written"`
}

// SaveHome writes the archive of the server's home to w. What w got counts only
// if there is no error: an archive that is cut short looks like any other.
func (c *Client) SaveHome(ctx context.Context, w io.Writer, excludes []string) (Saved, error) {
	body, err := json.Marshal(map[string][]string{"excludes": excludes})
	if err != nil {
		return Saved{}, fmt.Errorf("encode request: %w", err)
	}
	resp, err := c.send(ctx, http.MethodPost, "/v1/snapshot/save", nil, bytes.NewReader(body), "application/json")
	if err != nil {
		return Saved{}, err
	}
	defer resp.Body.Close() // read to its end, or broken
	if resp.StatusCode != http.StatusOK {
		return Saved{}, answer(resp, nil)
	}
	sum := sha256.New()
	in := &bodyReader{r: resp.Body}
	n, err := io.Copy(io.MultiWriter(w, sum), in)
	if in.err != nil {
		return Saved{}, broken(resp.StatusCode, in.err)
	}
	if err != nil {
		return Saved{}, fmt.Errorf("write archive: %w", err)
	}
	return checkTrailers(resp.Trailer, n, hex.EncodeToString(sum.Sum(nil)))
}

// bodyReader keeps the error of an answer apart from one of whoever takes it.
type bodyReader struct {
	r   io.Reader
	err error
}

func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// checkTrailers compares what the server says it sent with what arrived.
func checkTrailers(t http.Header, n int64, sum string) (Saved, error) {
	status := t.Get("X-Snapshot-Status")
	switch {
	case status == "":
		return Saved{}, incomplete("the answer ended without X-Snapshot-Status; a proxy on the way may drop trailers")
	case status != "ok":
		return Saved{}, incomplete("X-Snapshot-Status is %q", status)
	case t.Get("X-Snapshot-Bytes") != strconv.FormatInt(n, 10):
		return Saved{}, incomplete("%d bytes arrived of %s", n, t.Get("X-Snapshot-Bytes"))
	case !strings.EqualFold(t.Get("X-Snapshot-Sha256"), sum):
		return Saved{}, incomplete("the SHA-256 is %s, not %s", sum, t.Get("X-Snapshot-Sha256"))
	}
	return Saved{Bytes: n, SHA256: sum, Skipped: count(t, "X-Snapshot-Skipped"), Changed: count(t, "X-Snapshot-Changed")}, nil
}

// count reads a trailer that other servers do not send.
func count(t http.Header, name string) int64 {
	n, err := strconv.ParseInt(t.Get(name), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func incomplete(format string, args ...any) error {
	return &Error{Status: http.StatusOK, Code: CodeSnapshotIncomplete, Message: fmt.Sprintf(format, args...)}
}

// RestoreHome lays an archive over the server's home. A size that is not known
// is -1.
func (c *Client) RestoreHome(ctx context.Context, r io.Reader, size int64) (Restored, error) {
	var out Restored
	resp, err := c.send(ctx, http.MethodPost, "/v1/snapshot/restore", nil, sized{r, size}, "application/octet-stream")
	if err != nil {
		return out, err
	}
	defer resp.Body.Close() // read to its end by answer
	return out, answer(resp, &out)
}

// sized is a body whose length is known from elsewhere.
type sized struct {
	io.Reader
	size int64
}

func (s sized) apply(req *http.Request) {
	req.ContentLength = s.size
	if s.size == 0 {
		req.Body = http.NoBody // a length of 0 alone means that it is not known
	}
}
