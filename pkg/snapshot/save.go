package snapshot

import (
	"archive/tar"
	"context"
	"errors"
	"io"

	"shellctl/pkg/job"
)

// SaveOptions say what to leave out of an archive.
type SaveOptions struct {
	Excludes *Excludes // or nil
	StateDir string    // the state directory in use, absolute, or ""
}

// SaveStats count what a save did with the entries that no exclude left out.
type SaveStats struct {
	Entries int64 // in the archive
	Skipped int64 // missing from it: vanished or unreadable
	Changed int64 // in the archive, though their content changed while it was read
	Special int64 // sockets, FIFOs and devices, which no archive carries
}

// copyBuffer is the unit of reading and writing content. What fits it is small.
const copyBuffer = 256 << 10

// Save writes the archive of a home. After an error the archive is cut short,
// and nothing at all was written if the error came early enough.
//
// It returns only when w does: a writer that can block must have a deadline or be
// closed when the context ends.
func Save(ctx context.Context, w io.Writer, home string, opt SaveOptions) (stats SaveStats, err error) {
	t, err := openTree(home)
	if err != nil {
		return stats, err
	}
	defer t.close()

	g := &gate{w: w}
	enc, err := newEncoder(g)
	if err != nil {
		return stats, fail(job.CodeSnapshotFailed, err)
	}
	s := &saver{
		ctx: ctx, tree: t, out: g, tar: tar.NewWriter(&sweeper{w: enc}), stats: &stats,
		guard: newGuard(home, opt.StateDir),
		links: make(map[fileID]string),
		buf:   make([]byte, copyBuffer),
	}
	err = s.dir(opt.Excludes.top())
	if err == nil {
		err = s.tar.Close()
	}
	if err != nil {
		// The encoder must be closed for its goroutines to end, and would
		// send what it holds.
		g.shut(err)
	}
	if closeErr := enc.Close(); err == nil {
		err = closeErr
	}
	return stats, fail(job.CodeSnapshotFailed, err)
}

// maxHeader is the most that names and attributes of an entry may take. Readers
// refuse headers above 1 MiB.
const maxHeader = 900 << 10

// errHeader is the error of an entry that no header can describe.
var errHeader = errors.New("names and attributes are too long")

func (s *saver) writeHeader(h *tar.Header) error {
	size := len(h.Name) + len(h.Linkname)
	for key, value := range h.PAXRecords {
		size += len(key) + len(value)
	}
	if size > maxHeader {
		return errHeader
	}
	if err := s.tar.WriteHeader(h); err != nil {
		return err
	}
	s.stats.Entries++
	return nil
}
