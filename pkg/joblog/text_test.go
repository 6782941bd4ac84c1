package joblog

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// Bytes of which every other one begins or goes on something, so that windows
// and pieces are cut at every kind of place.
func nasty(rnd *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+len(mixed))
	for len(b) < n {
		at := rnd.IntN(len(mixed))
		b = append(b, mixed[at:at+1+rnd.IntN(min(9, len(mixed)-at))]...)
	}
	return b[:n]
}

// TestLargeWindows: windows that are looked at by their ends, and read in pieces,
// are those of the reference.
func TestLargeWindows(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		data := nasty(rnd, 3*textPiece)
		f, ref := logFile(t, data), refer(data)
		for range 20 {
			offset, final := rnd.IntN(len(data)), rnd.IntN(2) == 0
			limit := 40 + rnd.IntN(60) // around what is read whole
			if rnd.IntN(2) == 0 {
				limit = rnd.IntN(len(data))
			}
			got, want := mustPage(t, f, int64(offset), int64(limit), final), ref.page(offset, limit, final)
			if got != want {
				t.Fatalf("offset %d, limit %d, final %v of %q\n got %+v\nwant %+v", offset, limit, final, data[offset:min(len(data), offset+limit+9)], got, want)
			}
		}
	}
}

// A file that somebody cut, and a reader that went, end the text with an error.
func TestWriteTextFails(t *testing.T) {
	f := logFile(t, []byte(strings.Repeat("x", 3*textPiece)))
	w, err := Page(f, 0, 3*textPiece, true)
	if err != nil {
		t.Fatal(err)
	}
	pr, pw := io.Pipe()
	pr.CloseWithError(os.ErrClosed)
	if err := w.WriteText(f, pw); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the reader went: %v", err)
	}
	if err := f.Truncate(2*textPiece + 1); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := w.WriteText(f, &text); !errors.Is(err, io.EOF) || text.Len() != 2*textPiece {
		t.Errorf("%d bytes of a file that was cut: %v", text.Len(), err)
	}
}

func BenchmarkPage(b *testing.B) {
	f := logFile(b, []byte(strings.Repeat("a line of output\n", 64<<10)))
	for name, limit := range map[string]int64{"16KiB": 16 << 10, "512KiB": 512 << 10} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(limit)
			for b.Loop() {
				w, err := Page(f, 100, limit, false)
				if err == nil {
					err = w.WriteText(f, io.Discard)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
