package snapshot

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// dirent is a name in a directory, with the type the file system keeps beside it.
type dirent struct {
	name string
	kind uint32 // a file type bit of st_mode, or 0 if the file system does not say
}

// listDir returns the names of an open directory in byte order. It reads the
// records itself: os.File looks types that are missing up by path.
func listDir(fd int, buf []byte) ([]dirent, error) {
	var list []dirent
	for {
		var n int
		err := retry(func() (err error) { n, err = unix.Getdents(fd, buf); return err })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		list = appendDirents(list, buf[:n])
	}
	slices.SortFunc(list, func(a, b dirent) int { return strings.Compare(a.name, b.name) })
	return list, nil
}

// Layout of the kernel's struct linux_dirent64.
const (
	direntLen  = 16 // uint16, after inode and offset
	direntType = 18
	direntName = 19
)

func appendDirents(list []dirent, b []byte) []dirent {
	for len(b) > direntName {
		size := int(binary.NativeEndian.Uint16(b[direntLen:]))
		rec := b[:size]
		b = b[size:]
		name, _, _ := bytes.Cut(rec[direntName:], []byte{0})
		if s := string(name); s != "." && s != ".." {
			// DT_* is the file type of st_mode shifted down: dirent.h, DTTOIF.
			list = append(list, dirent{name: s, kind: uint32(rec[direntType]) << 12})
		}
	}
	return list
}
