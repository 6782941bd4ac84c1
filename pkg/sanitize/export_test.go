package sanitize

import "io"

// NewLimit returns a Filter that holds at most limit bytes of a line.
func NewLimit(w io.Writer, limit int) *Filter {
	f := New(w)
	f.limit = limit
	return f
}

// Held returns how much text f holds.
func (f *Filter) Held() int { return len(f.buf) }

// Kept returns how much memory f holds on to for text.
func (f *Filter) Kept() int { return cap(f.buf) + cap(f.line.seen) }
