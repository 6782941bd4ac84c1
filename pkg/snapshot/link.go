package snapshot

import (
	"archive/tar"
	"crypto/rand"
	"fmt"
	"path"

	"golang.org/x/sys/unix"
)

// symlink makes a link with the literal target. It replaces what has the name,
// also an empty directory.
func (r *restorer) symlink(h *tar.Header, name string) error {
	dir := r.tree.here().fd
	if st, err := lstatat(dir, name); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := retry(func() error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) }); err != nil {
			return err
		}
		delete(r.dirs, r.tree.at(name))
	}
	err := r.put(name, func(name string) error {
		return retry(func() error { return unix.Symlinkat(h.Linkname, dir, name) })
	})
	if err != nil {
		return err
	}
	return setTime(dir, name, h.ModTime)
}

// hardLink gives a file of the home a further name, which replaces what has it.
func (r *restorer) hardLink(h *tar.Header, name string) error {
	if h.Linkname == "" {
		return malformed("hardlink %q without a target", name)
	}
	target, err := cleanName(h.Linkname)
	if err != nil {
		return err
	}
	to := r.tree.here().path
	src, err := r.linkSource(target)
	if err != nil {
		return err
	}
	defer unix.Close(src.dir)
	if err := r.goTo(to, false); err != nil {
		return err
	}
	dir := r.tree.here().fd
	if st, err := lstatat(dir, name); err == nil && inodeOf(&st) == src.id {
		return nil // it is that file already
	}
	return r.put(name, func(name string) error {
		return retry(func() error { return unix.Linkat(src.dir, src.base, dir, name, 0) })
	})
}

// linkSource is the file that a hard link will share.
type linkSource struct {
	dir  int // a descriptor of its directory, to be closed
	base string
	id   inode
}

// linkSource finds the target of a hard link, which must be there already.
func (r *restorer) linkSource(name string) (src linkSource, err error) {
	dir, base := path.Split(name)
	err = r.goTo(dir, false)
	var st unix.Stat_t
	if err == nil {
		st, err = lstatat(r.tree.here().fd, base)
	}
	switch {
	case errno(err) == unix.ENOENT:
		return src, malformed("hardlink target %q is missing", name)
	case err != nil:
		return src, fmt.Errorf("hardlink target %q: %w", name, err)
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return src, malformed("hardlink target %q is a directory", name)
	case r.guard.covers(name), r.guard.covers(r.tree.at(base)):
		return src, malformed("hardlink target in the state directory: %q", name)
	}
	fd, err := unix.FcntlInt(uintptr(r.tree.here().fd), unix.F_DUPFD_CLOEXEC, 0)
	return linkSource{dir: fd, base: base, id: inodeOf(&st)}, err
}

// put creates something under a free name, or under a temporary one that then
// replaces what has the name.
func (r *restorer) put(name string, create func(name string) error) error {
	err := create(name)
	if err != unix.EEXIST {
		return err
	}
	temp := tempName()
	if err := create(temp); err != nil {
		return err
	}
	return r.replace(temp, name)
}

// replace moves the temporary name to the final one, or removes it.
func (r *restorer) replace(temp, name string) error {
	dir := r.tree.here().fd
	err := retry(func() error { return unix.Renameat(dir, temp, dir, name) })
	if err != nil {
		_ = unix.Unlinkat(dir, temp, 0)
	}
	return err
}

// tempName returns a name that nothing has.
func tempName() string { return ".shellctl-restore-" + rand.Text() }
