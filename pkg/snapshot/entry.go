package snapshot

import (
	"archive/tar"
	"time"

	"golang.org/x/sys/unix"
)

// header describes a name in the current directory.
func (s *saver) header(name string, st *unix.Stat_t, typ byte) *tar.Header {
	return fileHeader(s.tree.at(name), st, typ)
}

// fileHeader leaves owners out: a home belongs to whoever restores it.
func fileHeader(path string, st *unix.Stat_t, typ byte) *tar.Header {
	h := &tar.Header{
		Format:   tar.FormatPAX,
		Typeflag: typ,
		Name:     path,
		Mode:     int64(st.Mode & 0o7777),
		ModTime:  time.Unix(st.Mtim.Sec, st.Mtim.Nsec),
	}
	if typ == tar.TypeDir {
		h.Name += "/"
	}
	return h
}

// fileID tells a file from a later one that was given the same inode.
type fileID struct {
	inode
	born unix.StatxTimestamp // zero if the file system does not keep it
}

// linkID identifies a file that has several names.
func linkID(fd int, st *unix.Stat_t) fileID {
	id := fileID{inode: inodeOf(st)}
	var x unix.Statx_t
	err := retry(func() error { return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &x) })
	if err == nil && x.Mask&unix.STATX_BTIME != 0 {
		id.born = x.Btime
	}
	return id
}

// file saves a regular file: its content, or a link to the name under which the
// content already is in the archive.
func (s *saver) file(name string) error {
	fd, err := openat(s.tree.here().fd, name, readFlags, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.ENOENT // what the directory listed is no more
	}
	h := s.header(name, &st, tar.TypeReg)
	if st.Nlink < 2 {
		return s.content(h, fd, &st)
	}
	id := linkID(fd, &st)
	if first, ok := s.links[id]; ok {
		h.Typeflag, h.Linkname = tar.TypeLink, first
		return s.writeHeader(h)
	}
	if err := s.content(h, fd, &st); err != nil {
		return err
	}
	s.links[id] = h.Name
	return nil
}
