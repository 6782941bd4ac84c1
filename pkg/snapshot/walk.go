package snapshot

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// saver walks a tree and writes its entries.
type saver struct {
	ctx   context.Context
	tree  *tree
	out   *gate
	tar   *tar.Writer // ends in out
	stats *SaveStats
	guard guard
	links map[fileID]string // first name of each file that has several
	buf   []byte
}

// dir saves what is in the current directory.
func (s *saver) dir(ex matcher) error {
	names, err := listDir(s.tree.here().fd, s.buf)
	if err != nil {
		return s.skip(s.tree.here().path, err)
	}
	for _, d := range names {
		if err := checkContext(s.ctx); err != nil {
			return err
		}
		if err := s.skip(s.tree.at(d.name), s.entry(d, ex)); err != nil {
			return err
		}
		if s.tree.here().fd < 0 {
			return nil // moved away while we were below it, which was counted
		}
	}
	return nil
}

// stopError ends a save.
type stopError struct {
	name string // where it happened
	err  error
}

func (e *stopError) Error() string { return fmt.Sprintf("save %q: %v", e.name, e.err) }
func (e *stopError) Unwrap() error { return e.err }

// skip counts an entry that is lost for a reason of its own. Any other error
// ends the save, and so does one of the writer, whatever it looks like.
func (s *saver) skip(name string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*stopError](err); ok {
		return err
	}
	if s.out.failed() || !(err == errHeader || vanished(err) || unreadable(err)) {
		return &stopError{name, err}
	}
	s.stats.Skipped++
	return nil
}

func (s *saver) entry(d dirent, ex matcher) error {
	name := s.tree.at(d.name)
	if s.guard.is(name) {
		return nil
	}
	if d.kind == 0 {
		st, err := lstatat(s.tree.here().fd, d.name)
		if err != nil {
			return err
		}
		d.kind = st.Mode & unix.S_IFMT
	}
	if ex.excluded(d.name, d.kind == unix.S_IFDIR) {
		return nil
	}
	switch d.kind {
	case unix.S_IFREG:
		return s.file(d.name)
	case unix.S_IFDIR:
		return s.subdir(d.name, ex)
	case unix.S_IFLNK:
		return s.symlink(d.name)
	}
	s.stats.Special++
	return nil
}

// subdir saves a directory and what is in it. Of one that may not be opened
// the entry is saved, and its content counts as one skipped entry.
func (s *saver) subdir(name string, ex matcher) error {
	if err := s.tree.enter(name); err != nil {
		if unreadable(err) {
			if st, e := lstatat(s.tree.here().fd, name); e == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
				if e := s.writeHeader(s.header(name, &st, tar.TypeDir)); e != nil {
					return e
				}
			}
		}
		return err
	}
	err := s.inSubdir(name, ex)
	if leaveErr := s.tree.leave(); err == nil {
		err = leaveErr
	}
	return err
}

func (s *saver) inSubdir(name string, ex matcher) error {
	here := s.tree.here()
	if s.guard.owns(&here.st) {
		return nil
	}
	h := fileHeader(here.path, &here.st, tar.TypeDir)
	if err := addXattrs(h, here.fd); err != nil {
		return err
	}
	if err := s.writeHeader(h); err != nil {
		return err
	}
	return s.dir(ex.enter(name))
}

func (s *saver) symlink(name string) error {
	dir := s.tree.here().fd
	target, err := readlinkat(dir, name)
	if err != nil {
		return err
	}
	st, err := lstatat(dir, name)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return unix.ENOENT
	}
	h := s.header(name, &st, tar.TypeSymlink)
	h.Linkname = target
	return s.writeHeader(h)
}
