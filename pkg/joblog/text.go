package joblog

import (
	"fmt"
	"io"
	"os"
	"sync"
	"unicode/utf8"
)

// textPiece is how much of a window is in memory at a time.
const textPiece = 4 << 10

var pieces = sync.Pool{New: func() any { return new([textPiece]byte) }}

// WriteText writes the text of the window of f as valid UTF-8, in pieces of some
// KiB that split no character; each byte or run of bytes that is none is U+FFFD.
func (w Window) WriteText(f *os.File, to io.Writer) error {
	buf := pieces.Get().(*[textPiece]byte)
	defer pieces.Put(buf)
	for at := w.Begin; at < w.Offset; {
		b := buf[:min(textPiece, w.Offset-at)]
		if _, err := f.ReadAt(b, at); err != nil { // io.EOF too: somebody cut the file
			return fmt.Errorf("read output: %w", err)
		}
		if at+int64(len(b)) < w.Offset {
			b = b[:whole(b)]
		}
		at += int64(len(b))
		if err := writeValid(to, b); err != nil {
			return err
		}
	}
	return nil
}

// whole returns how much of b does not depend on what follows it.
func whole(b []byte) int {
	for p := len(b) - 1; p > 0 && p > len(b)-utf8.UTFMax; p-- {
		if utf8.RuneStart(b[p]) {
			if !utf8.FullRune(b[p:]) {
				return p
			}
			break
		}
	}
	return len(b)
}

func writeValid(to io.Writer, b []byte) error {
	if !utf8.Valid(b) {
		out := make([]byte, 0, utf8.UTFMax*len(b))
		for len(b) > 0 {
			r, n := utf8.DecodeRune(b)
			if r == utf8.RuneError && n == 1 {
				n = unit(b)
			}
			out = utf8.AppendRune(out, r)
			b = b[n:]
		}
		b = out
	}
	_, err := to.Write(b)
	return err
}
