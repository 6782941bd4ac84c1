package sanitize

import (
	"bytes"
	"time"
)

// When text is due that has no newline yet, such as a prompt.
const (
	Silence = 200 * time.Millisecond // after the latest input
	Latest  = 500 * time.Millisecond // after the first byte that is held
)

// ShowAt returns when held text is due to be shown by Show, the zero time if
// there is none that may be shown. Write and Show change it. A caller waits for
// input until then, and once the time has passed calls Show before it reads on:
// input that never pauses must not keep text back.
func (f *Filter) ShowAt() time.Time {
	if !f.timed {
		return time.Time{}
	}
	quiet, latest := f.last.Add(Silence), f.first.Add(Latest)
	if quiet.Before(latest) {
		return quiet
	}
	return latest
}

// Show writes out held text that may be visible before its line ends. It does not
// look at the clock.
func (f *Filter) Show() error {
	if f.showable() {
		f.settle()
		f.see()
		f.done = len(f.buf)
		f.emit()
	}
	f.timed = false
	return f.err
}

// see remembers the held text as seen. What is longer than any prompt is not
// compared with what the line becomes.
func (f *Filter) see() {
	if len(f.line.seen)+len(f.held()) > f.limit/8 {
		f.line.seen, f.line.lost = f.line.seen[:0], true
		return
	}
	f.line.seen = append(f.line.seen, f.held()...)
}

// showable reports whether there is held text that may be shown. A line that is
// being drawn again and is so far what readers saw has nothing new to show.
func (f *Filter) showable() bool {
	held := f.held()
	if len(held) == 0 || f.line.hold || f.line.cr {
		return false
	}
	return !f.line.anew || f.line.lost || !bytes.HasPrefix(f.line.seen, held)
}

// note takes the time of input that is held and may be shown. Complete lines
// cost no look at the clock.
func (f *Filter) note() {
	if !f.showable() {
		f.timed = false
		return
	}
	f.last = time.Now()
	if !f.timed {
		f.timed, f.first = true, f.last
	}
}
