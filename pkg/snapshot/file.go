package snapshot

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// file writes a regular file. If the name is taken, by a file, a link or
// whatever else is no directory, the content goes to a temporary name first:
// nothing is ever written through what was there.
func (r *restorer) file(h *tar.Header, name string) error {
	dir := r.tree.here().fd
	temp := name
	fd, err := openat(dir, temp, makeFlags, 0o600)
	if err == unix.EEXIST {
		if st, err := lstatat(dir, name); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return unix.EISDIR
		}
		temp = tempName()
		fd, err = openat(dir, temp, makeFlags, 0o600)
	}
	if err != nil {
		return err
	}
	err = r.fill(h, fd)
	if closeErr := unix.Close(fd); err == nil {
		err = closeErr
	}
	if err == nil {
		err = setTime(dir, temp, h.ModTime)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, temp, 0)
		return err
	}
	if temp == name {
		return nil
	}
	return r.replace(temp, name)
}

// fill gives a new file its content, attributes and mode. The mode comes last:
// attributes can not be set on a file that is read-only.
func (r *restorer) fill(h *tar.Header, fd int) error {
	if err := r.copy(h, fd); err != nil {
		return err
	}
	if err := setXattrs(fd, h); err != nil {
		return err
	}
	return retry(func() error { return unix.Fchmod(fd, uint32(h.Mode)&0o777) })
}

func (r *restorer) copy(h *tar.Header, fd int) error {
	var data int64 // so many bytes were not left as holes
	for off := int64(0); off < h.Size; {
		p := r.buf[:min(int64(len(r.buf)), h.Size-off)]
		if _, err := io.ReadFull(r.tar, p); err != nil {
			return r.src.explain(err)
		}
		if data == 0 && h.Size > int64(len(r.buf)) && !isZero(p) {
			if err := checkSpace(fd, h, off); err != nil {
				return err
			}
		}
		n, err := writeData(fd, p, off)
		if err != nil {
			return err
		}
		off, data = off+int64(len(p)), data+n
		r.stats.BytesWritten += int64(len(p))
	}
	if data == h.Size {
		return nil
	}
	return retry(func() error { return unix.Ftruncate(fd, h.Size) })
}

// holeBlock is the smallest hole: the block of most file systems.
const holeBlock = 4 << 10

// writeData writes what is not zero and returns how much that was. The offset
// is a multiple of holeBlock.
func writeData(fd int, p []byte, off int64) (n int64, err error) {
	for start := 0; start < len(p); {
		end, hole := start, 0
		for end < len(p) {
			size := min(holeBlock, len(p)-end)
			if size == holeBlock && isZero(p[end:end+size]) {
				hole = size
				break
			}
			end += size
		}
		if err := writeAt(fd, p[start:end], off+int64(start)); err != nil {
			return n, err
		}
		n += int64(end - start)
		start = end + hole
	}
	return n, nil
}

// allocated is the PAX comment with which a save says how much of a sparse file
// is data. Everyone else ignores comments.
const allocated = "allocated="

// checkSpace fails if what is left of a large file can not fit, before the file
// system is full and everyone else is out of space too.
func checkSpace(fd int, h *tar.Header, off int64) error {
	need := h.Size - off
	if text, ok := strings.CutPrefix(h.PAXRecords["comment"], allocated); ok {
		var n int64
		if _, err := fmt.Sscanf(text, "%d", &n); err == nil {
			need = min(need, n)
		}
	}
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(fd, &st) }); err != nil {
		return nil // unknown: the writes will tell
	}
	free := st.Bavail
	if os.Geteuid() == 0 {
		free = st.Bfree
	}
	free *= uint64(st.Bsize)
	if uint64(need) > free {
		return fmt.Errorf("%d bytes to write, %d free: %w", need, free, unix.ENOSPC)
	}
	return nil
}
