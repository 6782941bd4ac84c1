package sanitize

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// line is what is known of the unfinished line besides the text that is held.
type line struct {
	seen []byte // its text that was written out already
	marks
}

// marks are forgotten when a line begins.
type marks struct {
	lost bool // more was written out than seen tells
	anew bool // the held text replaces what was written out
	hold bool // CR rewrote it: nothing is shown until it ends

	// Control functions that came since the last text.
	cr     bool // the next text starts the line anew
	column bool // the cursor went to the first column by CHA
	erased bool // all of the line was erased
}

// open reports whether text of the line was written out.
func (l *line) open() bool { return l.lost || len(l.seen) > 0 }

// held is the text of the unfinished line that was not written out.
func (f *Filter) held() []byte { return f.buf[f.done:] }

// take takes the plain text at the start of p and returns how much that was.
func (f *Filter) take(p []byte) int {
	if f.line.cr || f.line.anew {
		return f.takeLine(p)
	}
	old := len(f.buf)
	f.buf = slices.Grow(f.buf, len(p))
	read, wrote := copyPlain(f.buf[old:old+len(p)], p)
	f.buf = f.buf[:old+wrote]
	if wrote == 0 {
		return read
	}
	f.line.column, f.line.erased = false, false
	// Nothing can rewrite the lines that end here, however long they are.
	if i := bytes.LastIndexByte(f.buf[old:], '\n'); i >= 0 {
		f.begin(old + i + 1)
	}
	f.bound()
	return read
}

// takeLine is take for a line that is not simply added to.
func (f *Filter) takeLine(p []byte) int {
	n := plain(p)
	if i := bytes.IndexByte(p[:n], '\n'); i >= 0 {
		f.text(p[:i])
		f.newline()
		return i + 1 + f.take(p[i+1:])
	}
	f.text(p[:n])
	return n
}

// text adds plain text without line feeds to the line.
func (f *Filter) text(s []byte) {
	if len(s) == 0 {
		return
	}
	if f.line.cr {
		f.restart()
	}
	f.line.column, f.line.erased = false, false
	f.buf = append(f.buf, s...)
	f.bound()
}

// begin makes the text up to n final and begins a line there.
func (f *Filter) begin(n int) {
	f.done = n
	f.line.seen, f.line.marks = f.line.seen[:0], marks{}
	f.timed = false
}

// newline ends the line.
func (f *Filter) newline() {
	f.settle()
	f.buf = append(f.buf, '\n')
	f.begin(len(f.buf))
}

// restart drops the text of the line, for that which follows.
func (f *Filter) restart() {
	if len(f.held()) > 0 || f.line.open() {
		f.line.hold = f.line.hold || f.line.cr
		f.line.anew = f.line.open()
		f.buf = f.buf[:f.done]
		f.timed = false
	}
	f.line.cr = false
}

// backspace erases the last character that is held.
func (f *Filter) backspace() {
	if f.line.cr { // the cursor is in the first column
		return
	}
	_, n := utf8.DecodeLastRune(f.held())
	f.buf = f.buf[:len(f.buf)-n]
}

// bound makes text of the line final when it grew too long to be held. Where it
// is cut depends on the text alone, not on the writes that it came with.
func (f *Filter) bound() {
	for len(f.held()) > f.limit {
		n := f.limit
		for !utf8.RuneStart(f.held()[n]) {
			n--
		}
		f.done += n - f.settle()
		f.line.lost, f.timed = true, false
	}
}

// settle joins the held text to what was written out of the same line, and returns
// how much of it was the same. See "Text without a newline" in the package comment.
func (f *Filter) settle() int {
	if !f.line.anew {
		return 0
	}
	f.line.anew = false
	if n := len(f.line.seen); !f.line.lost && bytes.HasPrefix(f.held(), f.line.seen) {
		f.buf = slices.Delete(f.buf, f.done, f.done+n)
		return n
	}
	f.line.seen, f.line.lost = f.line.seen[:0], false
	f.buf = slices.Insert(f.buf, f.done, '\n')
	f.done++
	return 0
}
