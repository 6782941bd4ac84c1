package joblog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shellctl/pkg/job"
)

// wellFormed is table 3-7 of the Unicode standard: the byte sequences that are
// characters. It is the reference here, instead of the package unicode/utf8.
var wellFormed = [][][2]byte{
	{{0x00, 0x7F}},
	{{0xC2, 0xDF}, {0x80, 0xBF}},
	{{0xE0, 0xE0}, {0xA0, 0xBF}, {0x80, 0xBF}},
	{{0xE1, 0xEC}, {0x80, 0xBF}, {0x80, 0xBF}},
	{{0xED, 0xED}, {0x80, 0x9F}, {0x80, 0xBF}},
	{{0xEE, 0xEF}, {0x80, 0xBF}, {0x80, 0xBF}},
	{{0xF0, 0xF0}, {0x90, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
	{{0xF1, 0xF3}, {0x80, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
	{{0xF4, 0xF4}, {0x80, 0x8F}, {0x80, 0xBF}, {0x80, 0xBF}},
}

// reference is how a decoder of the Unicode standard reads bytes: whole
// characters, and one U+FFFD for each maximal subpart that is none.
type reference struct {
	data  []byte
	ends  []int // where each character or subpart ends
	texts []string
	cut   bool // the last one could go on
}

func refer(data []byte) reference {
	r := reference{data: data}
	for at := 0; at < len(data); {
		n, whole := 1, false
		for _, row := range wellFormed {
			k := 0
			for k < len(row) && at+k < len(data) && row[k][0] <= data[at+k] && data[at+k] <= row[k][1] {
				k++
			}
			if k > 0 {
				n, whole = k, k == len(row)
				r.cut = !whole && at+k == len(data)
			}
		}
		text := "\uFFFD"
		if whole {
			text = string(data[at : at+n])
		}
		at += n
		r.ends = append(r.ends, at)
		r.texts = append(r.texts, text)
	}
	return r
}

// page is what Page has to return.
func (r reference) page(offset, limit int, final bool) shown {
	ends := r.ends
	start, first := offset, 0 // where the window begins, and with which of the texts
	for i, end := range ends {
		if end <= offset {
			first = i + 1
		} else if i > 0 && ends[i-1] < offset || i == 0 && offset > 0 {
			start, first = end, i+1 // offset is inside of this one
		}
	}
	if !final && r.cut && first < len(ends) {
		ends = ends[:len(ends)-1]
	}
	w := shown{Offset: int64(start)}
	last := first
	for last < len(ends) && (last == first || ends[last] <= offset+limit) {
		w.Text += r.texts[last]
		w.Offset = int64(ends[last])
		last++
	}
	w.More = last < len(ends)
	return w
}

func (r reference) text() string { return strings.Join(r.texts, "") }

// mixed has every kind of sequence: characters of one to four bytes and their
// borders, bytes that never occur, stray continuations, cut and overlong forms,
// surrogates.
var mixed = []byte("aé€😀z\n" +
	"\x00\x7f\u0080\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff\uFFFD" +
	"\xff\xfeb\xc3(\x80\x80ok\xbf\xbf\xbf\xbf\xbf" +
	"\xe2\x82x\xf0\x9f\x98y\xf0\x9f\xe2\x82\xac\xf0\xc3\xa9\xe2\xe2\xe2" +
	"\xc0\x80\xc1\xbf\xe0\x80\x80\xe0\x9f\xbf\xed\xa0\x80\xed\xbf\xbf" +
	"\xf0\x80\x80\x80\xf0\x8f\xbf\xbf\xf4\x90\x80\x80\xf5\x80\x80\x80\xf8\x88\x80\x80\x80" +
	"😀😀😀é€\xf0\x9f\x98")

func TestReference(t *testing.T) {
	// Examples of the Unicode standard, section 3.9, tables 3-8 to 3-11.
	for in, want := range map[string]string{
		"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41": "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA",
		"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41": "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA",
		"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42": "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA\uFFFD\uFFFDB",
		"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41": "\uFFFD\uFFFD\uFFFD\uFFFDA",
		"aé€😀":                                 "aé€😀",
	} {
		if got := refer([]byte(in)).text(); got != want {
			t.Errorf("refer(%q) = %q, want %q", in, got, want)
		}
	}
}

// logFile is an output that tests write bytes to.
func logFile(t testing.TB, data []byte) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("output.log", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "output.log")
	t.Cleanup(func() { f.Close() })
	grow(t, f, data)
	return f
}

func grow(t testing.TB, f *os.File, data []byte) {
	t.Helper()
	st, err := f.Stat()
	if err == nil {
		_, err = f.WriteAt(data, st.Size())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// shown is a window with its text.
type shown struct {
	Text   string
	Offset int64
	More   bool
}

func show(f *os.File, w Window) (shown, error) {
	var text strings.Builder
	err := w.WriteText(f, &text)
	if err == nil && w.Empty() != (text.Len() == 0) {
		err = fmt.Errorf("%+v is empty, its text %q", w, &text)
	}
	return shown{text.String(), w.Offset, w.More}, err
}

func mustPage(t testing.TB, f *os.File, offset, limit int64, final bool) shown {
	t.Helper()
	w, err := Page(f, offset, limit, final)
	if err != nil {
		t.Fatalf("Page(%d, %d, %v): %v", offset, limit, final, err)
	}
	s, err := show(f, w)
	if err != nil {
		t.Fatalf("text of Page(%d, %d, %v): %v", offset, limit, final, err)
	}
	return s
}

func tailOf(f *os.File, limit int64, final bool) (shown, error) {
	w, err := Tail(f, limit, final)
	if err != nil {
		return shown{}, err
	}
	return show(f, w)
}

func TestPageEveryOffsetAndLimit(t *testing.T) {
	for _, data := range [][]byte{mixed, []byte("aé€😀z\n"), []byte("😀😀😀😀"), {}} {
		f, ref := logFile(t, data), refer(data)
		for offset := range len(data) + 1 {
			for limit := 1; limit <= 64; limit++ {
				for _, final := range []bool{true, false} {
					got := mustPage(t, f, int64(offset), int64(limit), final)
					if want := ref.page(offset, limit, final); got != want {
						t.Fatalf("Page(%q, offset %d, limit %d, final %v)\n got %#v\nwant %#v", data, offset, limit, final, got, want)
					}
				}
			}
		}
	}
}

// readAll pages from offset until nothing more follows.
func readAll(t testing.TB, f *os.File, offset, limit int64, final bool) (string, int64) {
	t.Helper()
	var b strings.Builder
	for {
		w := mustPage(t, f, offset, limit, final)
		if w.Text != "" && w.Offset <= offset || w.Text == "" && w.More {
			t.Fatalf("Page(%d, %d, %v) does not advance: %#v", offset, limit, final, w)
		}
		b.WriteString(w.Text)
		offset = w.Offset
		if !w.More {
			return b.String(), offset
		}
	}
}

func TestPagesGiveTheWholeText(t *testing.T) {
	f := logFile(t, mixed)
	want := refer(mixed).text()
	for limit := int64(1); limit <= 64; limit++ {
		got, end := readAll(t, f, 0, limit, true)
		if got != want || end != int64(len(mixed)) {
			t.Errorf("limit %d: got %q up to %d, want %q up to %d", limit, got, end, want, len(mixed))
		}
	}
}

// A reader that keeps up with a writer sees the same text as one that comes
// later, wherever the writer was interrupted.
func TestPagesOfGrowingFile(t *testing.T) {
	want := refer(mixed).text()
	for cut := range len(mixed) + 1 {
		f := logFile(t, mixed[:cut])
		for _, limit := range []int64{1, 2, 3, 5, 64} {
			if err := f.Truncate(int64(cut)); err != nil {
				t.Fatal(err)
			}
			head, offset := readAll(t, f, 0, limit, false)
			if int64(cut)-offset > 3 {
				t.Fatalf("cut %d, limit %d: %d bytes are held back", cut, limit, int64(cut)-offset)
			}
			grow(t, f, mixed[cut:])
			rest, end := readAll(t, f, offset, limit, true)
			if got := head + rest; got != want || end != int64(len(mixed)) {
				t.Fatalf("cut %d, limit %d:\n got %q\nwant %q", cut, limit, got, want)
			}
		}
	}
}

func TestPageHoldsIncompleteCharacterBack(t *testing.T) {
	f := logFile(t, []byte("ok\xe2\x82"))
	if got, want := mustPage(t, f, 0, 100, false), (shown{Text: "ok", Offset: 2}); got != want {
		t.Errorf("while it grows: %#v, want %#v", got, want)
	}
	if got, want := mustPage(t, f, 2, 1, false), (shown{Offset: 2}); got != want {
		t.Errorf("of the half character: %#v, want %#v", got, want)
	}
	if got, want := mustPage(t, f, 0, 100, true), (shown{Text: "ok\uFFFD", Offset: 4}); got != want {
		t.Errorf("at the end: %#v, want %#v", got, want)
	}
	grow(t, f, []byte("\xac"))
	if got, want := mustPage(t, f, 2, 1, false), (shown{Text: "€", Offset: 5}); got != want {
		t.Errorf("once complete: %#v, want %#v", got, want)
	}
}

func TestPageOffsetPastEnd(t *testing.T) {
	f := logFile(t, []byte("12345"))
	for _, final := range []bool{true, false} {
		_, err := Page(f, 6, 10, final)
		var e *job.Error
		if !errors.As(err, &e) || e.Code != job.CodeInvalidOffset || e.Message != "offset 6 exceeds current file size 5" {
			t.Errorf("final %v: %#v", final, err)
		}
		if w := mustPage(t, f, 5, 10, final); w != (shown{Offset: 5}) {
			t.Errorf("at the end, final %v: %+v", final, w)
		}
	}
}

func TestPageOfNoFile(t *testing.T) {
	f := logFile(t, nil)
	f.Close()
	if _, err := Page(f, 0, 1, true); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Page: %v", err)
	}
	if _, err := tailOf(f, 1, true); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Tail: %v", err)
	}
}

// One bad byte in the middle must not make the search for characters quadratic.
func TestPageOfLargeWindowsIsFast(t *testing.T) {
	big := bytes.Repeat([]byte{'a'}, 1<<20)
	big[len(big)/2] = 0xFF
	stray := bytes.Repeat([]byte{0x80}, 1<<20)
	for name, data := range map[string][]byte{"one bad byte": big, "only bad bytes": stray} {
		f := logFile(t, data)
		begin := time.Now()
		w := mustPage(t, f, 0, int64(len(data)), true)
		if took := time.Since(begin); took > time.Second {
			t.Errorf("%s: took %v", name, took)
		}
		if want := strings.ToValidUTF8(string(data), ""); strings.ReplaceAll(w.Text, "\uFFFD", "") != want || w.Offset != 1<<20 || w.More {
			t.Errorf("%s: wrong window of %d bytes, offset %d", name, len(w.Text), w.Offset)
		}
	}
}

func TestTail(t *testing.T) {
	text := []byte("aé€😀z\n") // begins at 0, 1, 3, 6, 10, 11; 12 bytes
	f := logFile(t, text)
	for limit, want := range []string{0: "", 1: "\n", 2: "z\n", 3: "z\n", 5: "z\n", 6: "😀z\n", 8: "😀z\n", 9: "€😀z\n", 11: "é€😀z\n", 12: "aé€😀z\n", 13: "aé€😀z\n"} {
		if want == "" {
			continue
		}
		got, err := tailOf(f, int64(limit), true)
		if err != nil || got != (shown{Text: want, Offset: 12}) {
			t.Errorf("Tail(%d) = %#v, %v, want %q", limit, got, err, want)
		}
	}
	grow(t, f, []byte("\xf0\x9f"))
	if got, err := tailOf(f, 4, false); err != nil || got != (shown{Text: "z\n", Offset: 12}) {
		t.Errorf("Tail of a growing file = %#v, %v", got, err)
	}
	if got, err := tailOf(f, 4, true); err != nil || got != (shown{Text: "z\n\uFFFD", Offset: 14}) {
		t.Errorf("Tail of an ended file = %#v, %v", got, err)
	}
}

// The end of a build log must be in the tail, however long its lines are.
func TestTailAfterLongLine(t *testing.T) {
	f := logFile(t, []byte(strings.Repeat("x", 200000)+"\nerror: build failed\n"))
	w, err := tailOf(f, 100, true)
	if err != nil || !strings.HasSuffix(w.Text, "x\nerror: build failed\n") || len(w.Text) != 100 {
		t.Errorf("%#v, %v", w, err)
	}
}

// Random bytes out of those that matter, so that odd neighbours meet.
func TestPageRandom(t *testing.T) {
	alphabet := []byte("a\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc2\xdf\xe0\xe1\xed\xef\xf0\xf1\xf4\xf5\xff")
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		data := make([]byte, rnd.IntN(24))
		for i := range data {
			data[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		checkPage(t, data)
	}
}

func checkPage(t *testing.T, data []byte) {
	t.Helper()
	f, ref := logFile(t, data), refer(data)
	for offset := range len(data) + 1 {
		for limit := 1; limit <= 9; limit++ {
			for _, final := range []bool{true, false} {
				got := mustPage(t, f, int64(offset), int64(limit), final)
				if want := ref.page(offset, limit, final); got != want {
					t.Fatalf("Page(%q, offset %d, limit %d, final %v)\n got %#v\nwant %#v", data, offset, limit, final, got, want)
				}
			}
		}
	}
	f.Close()
}

func FuzzPage(f *testing.F) {
	f.Add(mixed, uint16(0), uint16(16))
	f.Add([]byte("aé€😀z\n"), uint16(7), uint16(2))
	f.Fuzz(func(t *testing.T, data []byte, offset, limit uint16) {
		log, ref := logFile(t, data), refer(data)
		at, n := int(offset)%(len(data)+1), int(limit)+1
		for _, final := range []bool{true, false} {
			got := mustPage(t, log, int64(at), int64(n), final)
			if want := ref.page(at, n, final); got != want {
				t.Fatalf("Page(%q, offset %d, limit %d, final %v)\n got %#v\nwant %#v", data, at, n, final, got, want)
			}
			if got, _ := readAll(t, log, 0, int64(n), true); got != ref.text() {
				t.Fatalf("all of %q in steps of %d = %q, want %q", data, n, got, ref.text())
			}
		}
	})
}
