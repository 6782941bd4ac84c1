package joblog

import (
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"shellctl/pkg/job"
)

// Window is a piece of an output: the text of the bytes from Begin to Offset. It
// does not hold the text, which [Window.WriteText] reads.
type Window struct {
	Begin  int64
	Offset int64 // byte position in the file just after the text
	More   bool  // bytes that could be read now follow
}

// Empty reports whether the window has no text.
func (w Window) Empty() bool { return w.Begin == w.Offset }

const (
	// lookBehind is how far before an offset a character that covers it can begin.
	lookBehind = utf8.UTFMax - 1

	// edge is how many bytes around either end of a window tell where it lies.
	edge = 8 * utf8.UTFMax
)

// Page finds the window of up to limit bytes of f from offset on.
//
// It splits no character: an offset inside one moves to its end, and a window
// ends before a character that does not fit, unless nothing else would; then it
// holds that one. So a reader that goes on at the returned offset always
// advances and gets the whole text. Bytes that are not UTF-8 count like a
// character for each maximal run that could have begun one (as the Unicode
// standard recommends, and as decoders of other languages do).
//
// While the writer lives (final is false), a character whose rest has not been
// written yet is left for later.
func Page(f *os.File, offset, limit int64, final bool) (Window, error) {
	st, err := f.Stat()
	if err != nil {
		return Window{}, fmt.Errorf("stat output: %w", err)
	}
	size := st.Size()
	if offset > size {
		return Window{}, job.Errorf(job.CodeInvalidOffset, "offset %d exceeds current file size %d", offset, size)
	}
	// A window that begins inside a character may end as far as two characters
	// later, and one more tells whether anything follows.
	from, to := max(0, offset-lookBehind), min(size, offset+limit+3*utf8.UTFMax)
	buf, err := readAt(f, from, min(to, from+2*edge))
	if err != nil {
		return Window{}, err
	}
	start := begin(buf, int(offset-from))
	w := Window{Begin: from + int64(start)}
	if to-from > 2*edge {
		// Large: only its ends are looked at. Any whole unit that lies before the
		// limit is as good a beginning as the first, to find the last from.
		from = min(size, offset+limit) - edge/2
		if buf, err = readAt(f, from, to); err != nil {
			return Window{}, err
		}
		start = begin(buf, lookBehind)
	}
	complete := final || from+int64(len(buf)) < size // the end of buf is no character's missing rest
	end := fit(buf, start, int(offset+limit-from), complete)
	w.Offset = from + int64(end)
	w.More = w.Offset < size && fit(buf, end, end+1, complete) > end
	return w, nil
}

// readAt reads the bytes between two positions, or less at the end of the file.
func readAt(f *os.File, from, to int64) ([]byte, error) {
	buf := make([]byte, to-from)
	n, err := f.ReadAt(buf, from)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read output: %w", err)
	}
	return buf[:n], nil
}

// Tail finds the window of the last limit bytes of f, or less to begin with a
// whole character.
func Tail(f *os.File, limit int64, final bool) (Window, error) {
	st, err := f.Stat()
	if err != nil {
		return Window{}, fmt.Errorf("stat output: %w", err)
	}
	return Page(f, max(0, st.Size()-limit), limit, final)
}

// begin returns the first position from i on that is not inside a unit begun before.
func begin(b []byte, i int) int {
	for k := 1; k <= lookBehind && k <= i; k++ {
		if p := i - k; utf8.RuneStart(b[p]) {
			return max(i, min(len(b), p+unit(b[p:])))
		}
	}
	return i
}

// fit returns where a window of b that begins at start must end so that it ends
// at a unit and, if any unit fits, not after limit. When complete is false, a
// unit that the end of b cuts is left out.
func fit(b []byte, start, limit int, complete bool) int {
	limit = min(limit, len(b))
	end := start
	if limit > start { // skip the bulk: only the last units can straddle the limit
		p := limit
		for p > start && limit-p < utf8.UTFMax && (p == len(b) || !utf8.RuneStart(b[p])) {
			p--
		}
		if p > start && p < len(b) && utf8.RuneStart(b[p]) {
			end = p
		}
	}
	for end < len(b) {
		u := unit(b[end:])
		if !complete && !utf8.FullRune(b[end:]) {
			return end
		}
		if end+u > limit && end > start {
			return end
		}
		end += u
		if end >= limit {
			return end
		}
	}
	return end
}

// unit returns the length of the character that b begins with or, where there
// is none, of the maximal run of bytes that could have begun one.
func unit(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
		return n
	}
	n := 1
	for n < len(b) && n < lookBehind && !utf8.FullRune(b[:n+1]) {
		n++
	}
	return n
}
