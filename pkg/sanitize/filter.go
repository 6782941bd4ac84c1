package sanitize

import (
	"io"
	"time"
)

const (
	// maxHeld bounds the text of an unfinished line that is kept back. What is
	// beyond can no longer be rewritten.
	maxHeld = 32 << 10

	// maxWork bounds how much input is turned into text before it is written.
	maxWork = 64 << 10
)

// Filter writes the plain text of the terminal bytes it is given to another
// writer. It is for one goroutine at a time.
type Filter struct {
	w   io.Writer
	err error // first error of w, or nil

	// buf is text that was not written yet: up to done it is final, behind that
	// is the line that is held.
	buf   []byte
	done  int
	limit int // maxHeld, less in tests
	line  line

	state state
	osc   bool // the string is an OSC, which BEL ends
	lead  bool // the last byte of the string began U+0080 to U+00BF
	size  int  // bytes of the sequence so far
	csi   csi
	part  [4]byte // character that was cut by the end of a Write
	nPart int

	screen bool // the program draws on a screen

	timed       bool      // first and last are of the text that is held
	first, last time.Time // its first and its latest input
}

// New returns a Filter in front of w.
func New(w io.Writer) *Filter { return &Filter{w: w, limit: maxHeld} }

// Write takes terminal bytes, split anywhere. It consumes all of p or returns the
// error of the underlying writer, which then stays: later calls return it too.
func (f *Filter) Write(p []byte) (int, error) {
	n := 0
	for f.err == nil && n < len(p) {
		work := p[n:min(len(p), n+maxWork)]
		f.parse(work)
		f.emit()
		if f.err == nil {
			n += len(work)
		}
	}
	f.note()
	return n, f.err
}

// Close ends the stream: what is held is written out. It does not close the
// underlying writer. An unfinished sequence is nothing, an unfinished character
// is one U+FFFD.
func (f *Filter) Close() error {
	if f.nPart > 0 {
		f.nPart = 0
		f.text([]byte(replacement))
	}
	f.state = ground
	f.settle()
	f.begin(len(f.buf))
	f.emit()
	return f.err
}

// emit writes out what is final. Whatever becomes of it, it is not kept.
func (f *Filter) emit() {
	if f.done == 0 {
		return
	}
	if f.err == nil {
		_, f.err = f.w.Write(f.buf[:f.done])
	}
	f.buf = f.buf[:copy(f.buf, f.buf[f.done:])]
	f.done = 0
}
