package snapshot

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"shellctl/pkg/job"
)

// RestoreOptions bound a restore.
type RestoreOptions struct {
	StateDir   string // the state directory in use, absolute, or ""
	MaxBytes   int64  // of content, 0 for no limit
	MaxEntries int64  // 0 for no limit
}

// RestoreStats count what a restore wrote.
type RestoreStats struct {
	Entries      int64 // directories, files and links of the archive
	BytesWritten int64 // content of files, holes included
}

// Restore lays an archive over a home. What the archive does not name stays.
// The error of a bad archive has the code archive_malformed, any other
// restore_failed; a deadline of the context or the reader is recognisable in it.
//
// It returns only when r does: a reader that can block must have a deadline or
// be closed when the context ends.
func Restore(ctx context.Context, r io.Reader, home string, opt RestoreOptions) (stats RestoreStats, err error) {
	t, err := openTree(home)
	if err != nil {
		return stats, err
	}
	defer t.close()
	src, err := newSource(ctx, r)
	if err != nil {
		return stats, fail(job.CodeRestoreFailed, err)
	}
	defer src.close()
	rs := &restorer{
		ctx: ctx, tree: t, tar: tar.NewReader(src), src: src, opt: opt, stats: &stats,
		guard: newGuard(home, opt.StateDir),
		dirs:  make(map[string]dirMeta),
		buf:   make([]byte, copyBuffer),
	}
	err = rs.entries()
	if dirErr := rs.finishDirs(); err == nil {
		err = dirErr
	}
	return stats, fail(job.CodeRestoreFailed, err)
}

// restorer writes the entries of one archive.
type restorer struct {
	ctx   context.Context
	tree  *tree
	tar   *tar.Reader
	src   *source // what tar reads
	opt   RestoreOptions
	stats *RestoreStats
	guard guard
	dirs  map[string]dirMeta // by resolved path: what finishDirs has to set
	buf   []byte
}

// dirMeta is set at the very end: a directory that may not be written to can
// still get its content, and that content does not change its time.
type dirMeta struct {
	mode  uint32
	mtime time.Time
}

func (r *restorer) entries() error {
	for {
		h, err := r.tar.Next()
		if err == io.EOF {
			return r.src.finish()
		}
		if err != nil {
			return r.src.explain(err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue // git archive keeps its commit there
		}
		name, err := cleanName(h.Name)
		if err != nil {
			return err
		}
		if name == "." {
			continue // the home itself: as it is
		}
		if err := r.admit(h, name); err != nil {
			return err
		}
		if err := r.entry(h, name); err != nil {
			return r.located(name, err)
		}
		r.stats.Entries++
	}
}

// cleanName returns an entry's name without detours, if it stays in the home.
func cleanName(name string) (string, error) {
	if strings.HasPrefix(name, "/") {
		return "", malformed("absolute entry name %q", name)
	}
	clean := path.Clean(name)
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", malformed("entry escapes root: %q", name)
	}
	return clean, nil
}

// admit refuses an entry for what its header says.
func (r *restorer) admit(h *tar.Header, name string) error {
	switch h.Typeflag {
	case tar.TypeDir, tar.TypeReg, tar.TypeSymlink, tar.TypeLink:
	default:
		return malformed("unsupported entry type %q for %q", h.Typeflag, name)
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return malformed("sparse entry %q", name)
		}
	}
	if r.guard.covers(name) {
		return malformed("entry in the state directory: %q", name)
	}
	if n := r.opt.MaxEntries; n > 0 && r.stats.Entries >= n {
		return fmt.Errorf("restore %q: more than %d entries", name, n)
	}
	if n := r.opt.MaxBytes; n > 0 && h.Typeflag == tar.TypeReg && h.Size > n-r.stats.BytesWritten {
		return fmt.Errorf("restore %q: more than %d bytes", name, n)
	}
	return checkContext(r.ctx)
}

// entry writes an entry that was admitted.
func (r *restorer) entry(h *tar.Header, name string) error {
	dir, base := path.Split(name)
	if err := r.goTo(dir, true); err != nil {
		return err
	}
	if r.guard.covers(r.tree.at(base)) {
		return malformed("entry in the state directory through a link: %q", name)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return r.directory(h, base)
	case tar.TypeReg:
		return r.file(h, base)
	case tar.TypeSymlink:
		return r.symlink(h, base)
	}
	return r.hardLink(h, base)
}

// located adds the name to an error of the file system.
func (r *restorer) located(name string, err error) error {
	if isCoded(err) {
		return err
	}
	return fmt.Errorf("restore %q: %w", name, err)
}
