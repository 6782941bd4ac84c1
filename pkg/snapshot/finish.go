package snapshot

import (
	"fmt"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// finishDirs gives the directories of the archive their modes and times, those
// below before those above: one may end without the right to enter it. It runs
// after a failure too, so that no directory keeps the rights it was given for
// its content. Directories that are gone since are no failure.
func (r *restorer) finishDirs() error {
	names := make([]string, 0, len(r.dirs))
	for name := range r.dirs {
		names = append(names, name)
	}
	slices.Sort(names)
	slices.Reverse(names) // a path sorts after what it begins with
	var first error
	for _, name := range names {
		err := r.finishDir(name, r.dirs[name])
		if first == nil && err != nil && !vanished(err) {
			first = fmt.Errorf("restore %q: %w", name, err)
		}
	}
	return first
}

func (r *restorer) finishDir(name string, meta dirMeta) error {
	dir, base := path.Split(name)
	if err := r.goTo(dir, false); err != nil {
		return err
	}
	if err := r.tree.enter(base); err != nil {
		return err
	}
	here := r.tree.here()
	err := retry(func() error { return unix.Fchmod(here.fd, meta.mode) })
	if leaveErr := r.tree.leave(); err == nil {
		err = leaveErr
	}
	if err != nil {
		return err
	}
	return setTime(r.tree.here().fd, base, meta.mtime)
}
