package snapshot

import (
	"archive/tar"
	"strconv"

	"golang.org/x/sys/unix"
)

// zeros is what a hole reads as, and what pads a file that shrank.
var zeros [64 << 10]byte

// content saves the header and the content of an open file. A file that fits
// the buffer is read first, so that the header says what was read.
func (s *saver) content(h *tar.Header, fd int, st *unix.Stat_t) error {
	if err := addXattrs(h, fd); err != nil {
		return err
	}
	h.Size = st.Size
	if h.Size <= int64(len(s.buf)) {
		return s.small(h, fd, st)
	}
	r := &holeReader{fd: fd, sparse: st.Blocks*512 < st.Size}
	if r.sparse {
		setRecord(h, "comment", allocated+strconv.FormatInt(st.Blocks*512, 10))
	}
	if err := s.writeHeader(h); err != nil {
		return err
	}
	short := false
	for r.off < h.Size {
		if err := checkContext(s.ctx); err != nil {
			return err
		}
		p, err := r.next(s.buf, h.Size)
		if err != nil {
			return err
		}
		if len(p) == 0 {
			short = true // it shrank: the header's promise is kept with zeros
			p = zeros[:min(int64(len(zeros)), h.Size-r.off)]
			r.off += int64(len(p))
		}
		if _, err := s.tar.Write(p); err != nil {
			return err
		}
	}
	s.noteChange(fd, st, short)
	return nil
}

func (s *saver) small(h *tar.Header, fd int, st *unix.Stat_t) error {
	n, err := readFull(fd, s.buf[:h.Size])
	if err != nil {
		return err
	}
	short := int64(n) < h.Size
	h.Size = int64(n)
	if err := s.writeHeader(h); err != nil {
		return err
	}
	if _, err := s.tar.Write(s.buf[:n]); err != nil {
		return err
	}
	s.noteChange(fd, st, short)
	return nil
}

// noteChange counts a file that is no longer what it was when it was opened.
func (s *saver) noteChange(fd int, before *unix.Stat_t, short bool) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstat(fd, &st) })
	if short || err != nil || st.Size != before.Size || st.Mtim != before.Mtim {
		s.stats.Changed++
	}
}

// holeReader reads a file from the start and steps over its holes.
type holeReader struct {
	fd     int
	sparse bool
	off    int64 // how far it has read
	hole   int64 // up to here there is nothing but zeros
	data   int64 // up to here there is data
}

// next returns up to size the bytes that follow, none at the end of the file.
func (r *holeReader) next(buf []byte, size int64) ([]byte, error) {
	if r.sparse && r.off >= r.hole && r.off >= r.data {
		r.seek(size)
	}
	if r.off < r.hole {
		p := zeros[:min(int64(len(zeros)), r.hole-r.off)]
		r.off += int64(len(p))
		return p, nil
	}
	end := size
	if r.sparse {
		end = r.data
	}
	p := buf[:min(int64(len(buf)), end-r.off)]
	var n int
	err := retry(func() (err error) { n, err = unix.Pread(r.fd, p, r.off); return err })
	if err != nil {
		return nil, err
	}
	r.off += int64(n)
	return p[:n], nil
}

// seek finds the next hole and the data behind it. A file that shrank, or a
// file system without the call, is read on as if it had none.
func (r *holeReader) seek(size int64) {
	r.hole, r.data = r.off, size
	start, err := unix.Seek(r.fd, r.off, unix.SEEK_DATA)
	if err == unix.ENXIO {
		var st unix.Stat_t
		if unix.Fstat(r.fd, &st) == nil && st.Size >= size {
			r.hole = size
		}
		return
	}
	if err != nil || start >= size {
		r.sparse = err == nil
		if err == nil {
			r.hole = size
		}
		return
	}
	r.hole = start
	if end, err := unix.Seek(r.fd, start, unix.SEEK_HOLE); err == nil {
		r.data = min(end, size)
	}
}
