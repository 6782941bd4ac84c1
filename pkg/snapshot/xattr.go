package snapshot

import (
	"archive/tar"
	"bytes"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// userXattr is the one namespace that belongs to the owner of a file.
	userXattr = "user."

	// xattrRecord is the PAX record of GNU tar, star and bsdtar.
	xattrRecord = "SCHILY.xattr."

	// maxXattr is the kernel's limit on a value and on a list of names.
	maxXattr = 64 << 10
)

// A PAX key can not hold "=". GNU tar escapes it so.
var (
	escapeXattr   = strings.NewReplacer("%", "%25", "=", "%3D")
	unescapeXattr = strings.NewReplacer("%25", "%", "%3D", "=")
)

// addXattrs puts the user attributes of an open file into its header. One that
// vanishes meanwhile, or that the file system does not let us read, stays out.
func addXattrs(h *tar.Header, fd int) error {
	var small [1 << 10]byte
	names, err := listXattrs(fd, small[:])
	if err != nil || len(names) == 0 {
		return err
	}
	for name := range bytes.SplitSeq(names, []byte{0}) {
		key := string(name)
		if !strings.HasPrefix(key, userXattr) {
			continue
		}
		value := make([]byte, maxXattr)
		var n int
		err := retry(func() (err error) { n, err = unix.Fgetxattr(fd, key, value); return err })
		if err == unix.EIO {
			return err
		}
		if err != nil {
			continue
		}
		setRecord(h, xattrRecord+escapeXattr.Replace(key), string(value[:n]))
	}
	return nil
}

func setRecord(h *tar.Header, key, value string) {
	if h.PAXRecords == nil {
		h.PAXRecords = make(map[string]string)
	}
	h.PAXRecords[key] = value
}

func listXattrs(fd int, buf []byte) ([]byte, error) {
	for {
		var n int
		err := retry(func() (err error) { n, err = unix.Flistxattr(fd, buf); return err })
		switch err {
		case nil:
			return buf[:n], nil
		case unix.ERANGE:
			if len(buf) < maxXattr {
				buf = make([]byte, maxXattr)
				continue
			}
			return nil, nil
		case unix.EIO:
			return nil, err
		}
		return nil, nil // the file system has none
	}
}

// setXattrs gives an open file the user attributes of its header. A file
// system that can not hold any is no reason to refuse the content.
func setXattrs(fd int, h *tar.Header) error {
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, xattrRecord)
		if !ok || !strings.HasPrefix(name, userXattr) {
			continue
		}
		name = unescapeXattr.Replace(name)
		err := retry(func() error { return unix.Fsetxattr(fd, name, []byte(value), 0) })
		if err != nil && err != unix.EOPNOTSUPP {
			return err
		}
	}
	return nil
}
