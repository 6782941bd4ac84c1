package snapshot

import (
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"shellctl/pkg/job"
)

// maxOpenDirs bounds the descriptors a deep path holds.
const maxOpenDirs = 64

// tree is a position below the home: the directories from the home down to the
// current one, each opened from the descriptor of the one above it and never
// through a link. A directory that is moved meanwhile takes the position with
// it, so nothing can lead it elsewhere.
//
// Of a deep path only the lowest directories stay open. One further up is
// opened again on the way back, through ".." or from the root, and must then be
// the same directory.
type tree struct {
	root   *os.Root
	levels []level
	parked int // levels[1:1+parked] are closed
}

type level struct {
	name string // within the level above
	path string // relative to the home, "" for the home
	st   unix.Stat_t
	fd   int // -1 if closed
}

// openTree opens the home, which may itself be a link.
func openTree(home string) (*tree, error) {
	fi, err := os.Stat(home) // first: opening a FIFO would wait
	if err == nil && !fi.IsDir() {
		err = &os.PathError{Op: "open", Path: home, Err: unix.ENOTDIR}
	}
	if err != nil {
		return nil, fail(job.CodeHomeUnavailable, err)
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return nil, fail(job.CodeHomeUnavailable, err)
	}
	t := &tree{root: root}
	top := level{}
	if err := t.openTop(&top); err != nil {
		root.Close()
		return nil, fail(job.CodeHomeUnavailable, fmt.Errorf("open home: %w", err))
	}
	t.levels = []level{top}
	return t, nil
}

func (t *tree) openTop(l *level) error {
	fd, err := t.openRooted(".")
	if err != nil {
		return err
	}
	l.fd = fd
	return retry(func() error { return unix.Fstat(fd, &l.st) })
}

// openRooted opens a directory by its path below the root.
func (t *tree) openRooted(name string) (int, error) {
	f, err := t.root.OpenFile(name, dirFlags, 0)
	if err != nil {
		return -1, err
	}
	defer f.Close()
	return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

func (t *tree) close() {
	for i := range t.levels {
		t.levels[i].shut()
	}
	t.root.Close()
}

// here is the current directory.
func (t *tree) here() *level { return &t.levels[len(t.levels)-1] }

// at returns the path of a name in the current directory.
func (t *tree) at(name string) string { return path.Join(t.here().path, name) }

// enter goes down into a directory.
func (t *tree) enter(name string) error {
	fd, err := openat(t.here().fd, name, dirFlags, 0)
	if err != nil {
		return err
	}
	l := level{name: name, path: t.at(name), fd: fd}
	if err := retry(func() error { return unix.Fstat(fd, &l.st) }); err != nil {
		unix.Close(fd)
		return err
	}
	t.levels = append(t.levels, l)
	if len(t.levels)-t.parked > maxOpenDirs {
		t.parked++
		t.levels[t.parked].shut()
	}
	return nil
}

func (l *level) shut() {
	if l.fd >= 0 {
		unix.Close(l.fd)
		l.fd = -1
	}
}

// leave goes up again. After an error the current directory is gone from where
// it was, and only leave may follow.
func (t *tree) leave() error {
	last := len(t.levels) - 1
	child, parent := &t.levels[last], &t.levels[last-1]
	defer func() {
		child.shut()
		t.levels = t.levels[:last]
	}()
	if t.parked < last-1 || last == 1 {
		return nil
	}
	t.parked = last - 2
	return t.reopen(child.fd, parent)
}

func (t *tree) reopen(child int, l *level) error {
	if child >= 0 {
		if fd, err := openat(child, "..", dirFlags, 0); err == nil && t.adopt(l, fd) {
			return nil
		}
	}
	fd, err := t.openRooted(l.path)
	if err != nil {
		return err
	}
	if !t.adopt(l, fd) {
		return unix.ESTALE
	}
	return nil
}

// adopt takes the descriptor if it is the directory that the level was.
func (t *tree) adopt(l *level, fd int) bool {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || inodeOf(&st) != inodeOf(&l.st) {
		unix.Close(fd)
		return false
	}
	l.fd = fd
	return true
}
