package runner

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"shellctl/pkg/sanitize"
)

// stream carries one output of the script to its log. Its goroutine is pump,
// which ends at the end of the stream or of the drain, and then closes done.
type stream struct {
	f      *os.File         // terminal or pipe, read with deadlines
	w      io.Writer        // the log, or the filter in front of it
	filter *sanitize.Filter // pty only, or nil
	grew   func()           // called after the log may have grown, or nil
	done   chan struct{}
	open   bool // pump ended before the end of the stream; set before done is closed

	mu    sync.Mutex
	quiet time.Duration // while draining: how long without a byte is the end
	since time.Time     // while draining: the last byte or the begin, zero before
	until time.Time     // while draining: the end at the latest
}

const readBuffer = 64 << 10

func (s *stream) pump() {
	defer close(s.done)
	buf := make([]byte, readBuffer)
	for {
		s.arm()
		n, err := s.read(buf)
		if n > 0 {
			s.take(buf[:n])
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			if s.overdue() {
				s.open = true
				s.end()
				return
			}
		default: // io.EOF of a pipe; EIO of a terminal that nobody holds any more
			s.end()
			return
		}
	}
}

// read waits for bytes and takes all that are there. A terminal gives them out in
// pieces of 4 KiB at most, each of which would else be a write to the log.
func (s *stream) read(buf []byte) (n int, err error) {
	raw, err := s.f.SyscallConn()
	if err != nil {
		return 0, err
	}
	waited := raw.Read(func(fd uintptr) bool {
		for n < len(buf) {
			var k int
			k, err = unix.Read(int(fd), buf[n:])
			switch {
			case err == nil && k > 0:
				n += k
			case err == nil:
				err = io.EOF
				return true
			case errors.Is(err, unix.EINTR):
			case errors.Is(err, unix.EAGAIN):
				err = nil
				return n > 0
			default:
				return true
			}
		}
		return true
	})
	if n == 0 && waited != nil {
		return 0, waited // the deadline
	}
	return n, err
}

// take hands bytes on.
func (s *stream) take(p []byte) {
	s.mu.Lock()
	if !s.since.IsZero() {
		s.since = time.Now()
	}
	s.mu.Unlock()
	_, _ = s.w.Write(p) // the log never fails; what it could not write, it says at Close
	if s.grew != nil {
		s.grew()
	}
}

// arm sets the deadline of the next read: when held text is due to be shown, or
// the drain is over. The lock keeps drain from setting one that would be lost.
func (s *stream) arm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var at time.Time
	if s.filter != nil {
		at = s.filter.ShowAt()
	}
	if !s.since.IsZero() {
		if end := s.endAt(); at.IsZero() || end.Before(at) {
			at = end
		}
	}
	_ = s.f.SetReadDeadline(at) // fails on a closed file only, as will the read
}

func (s *stream) endAt() time.Time {
	if quiet := s.since.Add(s.quiet); quiet.Before(s.until) {
		return quiet
	}
	return s.until
}

// overdue shows held text that is due and reports whether the drain is over.
func (s *stream) overdue() bool {
	now := time.Now()
	if s.filter != nil {
		if at := s.filter.ShowAt(); !at.IsZero() && !now.Before(at) {
			_ = s.filter.Show() // as for Write
			s.grew()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.since.IsZero() && !now.Before(s.endAt())
}

// end flushes the sanitizer.
func (s *stream) end() {
	if s.filter == nil {
		return
	}
	_ = s.filter.Close() // as for Write
	s.grew()
}

// drain bounds the stream: it ends after a time without a byte, at the latest after all.
func (s *stream) drain(quiet, all time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet = quiet
	s.since = time.Now()
	s.until = s.since.Add(all)
	_ = s.f.SetReadDeadline(s.endAt()) // as in arm; a read under way sees it too
}

// discard reads on until the last writer has closed the pipe, and closes it.
func (s *stream) discard() {
	if s.filter != nil {
		return // a terminal is hung up instead
	}
	if s.open {
		_ = s.f.SetReadDeadline(time.Time{}) // as in arm
		_, _ = io.Copy(io.Discard, s.f)      // nobody wants an error of it
	}
	_ = s.f.Close() // only read from
}
