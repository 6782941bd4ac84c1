package snapshot

import (
	"archive/tar"

	"golang.org/x/sys/unix"
)

// directory makes a directory, or takes the one that is there. It replaces a
// link, FIFO, socket or device, which have no content of their own to lose.
func (r *restorer) directory(h *tar.Header, name string) error {
	if err := r.makeDir(name); err != nil {
		return err
	}
	err := r.tree.enter(name)
	if err == unix.EACCES {
		if err = makeEnterable(r.tree.here().fd, name); err == nil {
			err = r.tree.enter(name)
		}
	}
	if err != nil {
		return err
	}
	if err := r.checkHere(); err != nil {
		return err
	}
	here := r.tree.here()
	if here.st.Mode&0o700 != 0o700 {
		// Whoever does not own the directory may still be able to write to it.
		_ = retry(func() error { return unix.Fchmod(here.fd, here.st.Mode&0o777|0o700) })
	}
	r.dirs[here.path] = dirMeta{mode: uint32(h.Mode) & 0o777, mtime: h.ModTime}
	return setXattrs(here.fd, h)
}

func (r *restorer) makeDir(name string) error {
	dir := r.tree.here().fd
	mkdir := func() error { return unix.Mkdirat(dir, name, 0o700) }
	err := retry(mkdir)
	if err != unix.EEXIST {
		return err
	}
	st, err := lstatat(dir, name)
	if err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return nil
	case unix.S_IFREG:
		return unix.EEXIST
	}
	if err := retry(func() error { return unix.Unlinkat(dir, name, 0) }); err != nil {
		return err
	}
	return retry(mkdir)
}
