package stub

import (
	"context"
	"io"
	"os"
	"time"
)

// SetTimeouts gives c one time for everything.
func (c *Client) SetTimeouts(d time.Duration) {
	c.limits.control, c.limits.knowledge, c.limits.download, c.limits.upload = d, d, d, d
}

// SetUnsized limits downloads of unknown size.
func (c *Client) SetUnsized(n int64) { c.limits.unsized = n }

// UnpackLimits are the limits of Unpack.
type UnpackLimits struct {
	Entries                          int
	Size, Ratio, FreeSize, Directory int64
}

// Unpack extracts an archive with other limits; those that are 0 are the usual ones.
func Unpack(ctx context.Context, dir *os.Root, r io.ReaderAt, size int64, l UnpackLimits) error {
	limits := defaultUnpackLimits()
	if l.Entries != 0 {
		limits.entries = l.Entries
	}
	for _, x := range []struct {
		to *int64
		n  int64
	}{{&limits.size, l.Size}, {&limits.ratio, l.Ratio}, {&limits.freeSize, l.FreeSize}, {&limits.directory, l.Directory}} {
		if x.n != 0 {
			*x.to = x.n
		}
	}
	return unpack(ctx, dir, r, size, limits)
}

// Source is an upload in the making.
type Source struct {
	Name, Type string
	Size       int64
	Content    io.ReadCloser
}

// Post sends a source to a signed URL and returns the id and reference.
func (c *Client) Post(ctx context.Context, target string, s Source) (id, reference string, err error) {
	u, err := c.post(ctx, target, &source{name: s.Name, mime: s.Type, size: s.Size, content: s.Content})
	return u.id, u.reference, err
}

// UploadTimeout is the limit of one upload.
const UploadTimeout = uploadTimeout

// FreeNames returns the first n names for a download.
func FreeNames(name string, n int) []string {
	var names []string
	for name := range freeNames(name) {
		if len(names) == n {
			break
		}
		names = append(names, name)
	}
	return names
}

// LocalName is the name of a download.
func LocalName(name string) string { return localName(name) }
