package stub

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"

	"golang.org/x/sys/unix"
)

// newName returns a name that nobody else uses in a directory, for what is not
// finished yet.
func newName() string { return ".dify-agent-" + rand.Text() }

// scratch is a file under construction, beside the place it is meant for.
type scratch struct {
	*os.File
	dir  *os.Root
	name string // or "" once it has been placed
}

func newScratch(dir *os.Root) (*scratch, error) {
	name := newName()
	f, err := dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	return &scratch{File: f, dir: dir, name: name}, nil
}

// discard closes the file, and removes it unless it has been placed.
func (s *scratch) discard() {
	s.Close()
	if s.name != "" {
		s.dir.Remove(s.name)
	}
}

// replace gives the file its name, in place of what has that name.
func (s *scratch) replace(name string) error {
	if err := s.Close(); err != nil { // some file systems report a full disk here
		return err
	}
	if err := s.dir.Rename(s.name, name); err != nil {
		return err
	}
	s.name = ""
	return nil
}

// claim gives the file the first of names that is free, and returns that name.
func (s *scratch) claim(names iter.Seq[string]) (string, error) {
	if err := s.Close(); err != nil {
		return "", err
	}
	for name := range names {
		err := renameNew(s.dir, s.name, name)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		s.name = ""
		return name, nil
	}
	return "", fs.ErrExist
}

// renameNew renames an entry of dir, and fails if the new name is taken.
func renameNew(dir *os.Root, from, to string) error {
	err := renameat2(dir, from, to, unix.RENAME_NOREPLACE)
	if !unsupported(err) {
		return err
	}
	if err := dir.Link(from, to); err != nil {
		return err
	}
	return dir.Remove(from)
}

// swapIn gives the finished directory staged its name. What had that name is
// gone afterwards; with a kernel and file system that can exchange two names
// there is no moment without either.
func swapIn(dir *os.Root, staged, name string) error {
	err := error(unix.ENOENT)
	// Another pull may make or remove the name between the two calls.
	for attempt := 0; attempt < 16 && errors.Is(err, unix.ENOENT); attempt++ {
		err = renameat2(dir, staged, name, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EEXIST) {
			err = renameat2(dir, staged, name, unix.RENAME_EXCHANGE)
			if err == nil {
				dir.RemoveAll(staged) // the new one stands, whatever is left of the old one
			}
		}
	}
	if !unsupported(err) {
		return err
	}
	if err := dir.RemoveAll(name); err != nil {
		return err
	}
	return dir.Rename(staged, name)
}

// unsupported reports whether a file system cannot do a special rename. An
// overlay says EXDEV for directories of its lower layer.
func unsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EXDEV)
}

// renameat2 renames an entry of dir. Both names must be plain entries.
func renameat2(dir *os.Root, from, to string, flags uint) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	fd := int(d.Fd())
	if err := unix.Renameat2(fd, from, fd, to, flags); err != nil {
		return fmt.Errorf("rename to %s: %w", shown(to), err)
	}
	return nil
}

// openDir makes a directory with its parents where needed and opens it.
func openDir(path string) (*os.Root, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	return os.OpenRoot(path)
}
