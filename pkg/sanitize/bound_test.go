package sanitize_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"shellctl/pkg/sanitize"
)

// maxHeld is the most that a Filter may hold of a line.
const maxHeld = 64 << 10

// stream writes raw in pieces of n bytes and checks what is held in between.
func stream(t *testing.T, f *sanitize.Filter, raw []byte, n int) {
	t.Helper()
	for len(raw) > 0 {
		k := min(n, len(raw))
		write(t, f, raw[:k])
		raw = raw[k:]
		if f.Held() > maxHeld {
			t.Fatalf("%d bytes are held", f.Held())
		}
	}
}

// M05: a line of any length streams through.
func TestLongLine(t *testing.T) {
	for name, raw := range map[string][]byte{
		"ASCII": bytes.Repeat([]byte("0123456789abcdef"), 1<<16),
		"UTF-8": bytes.Repeat([]byte("─é🚀x"), 1<<17),
	} {
		for _, n := range []int{1000, 4096, 65536, len(raw)} {
			var out bytes.Buffer
			f := sanitize.New(&out)
			stream(t, f, raw, n)
			if held := len(raw) - out.Len(); held > maxHeld {
				t.Errorf("%s in pieces of %d: %d bytes are not written", name, n, held)
			}
			closeFilter(t, f)
			if !bytes.Equal(out.Bytes(), raw) {
				t.Errorf("%s in pieces of %d: text is not the stream", name, n)
			}
		}
	}
}

// Text that is too far back cannot be rewritten, and is not repeated.
func TestLongLineRewritten(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, n := range []int{1, 1000, 65536, 200_000} {
		var out bytes.Buffer
		f := sanitize.New(&out)
		stream(t, f, []byte(long+"\ry\bz\r\n"), n)
		closeFilter(t, f)
		first, second, ok := strings.Cut(out.String(), "\n")
		if !ok || strings.Trim(first, "x") != "" || len(first) < len(long)-maxHeld || second != "z\n" {
			t.Errorf("pieces of %d: %d bytes, then %.20q", n, len(first), second)
		}
	}
}

// F26: a bar of 10 MiB without LF.
func TestEndlessProgress(t *testing.T) {
	var raw bytes.Buffer
	frame := 0
	for ; raw.Len() < 10<<20; frame++ {
		fmt.Fprintf(&raw, "\rframe %d", frame)
	}
	raw.WriteString("\nDONE\n")
	var out bytes.Buffer
	f := sanitize.New(&out)
	stream(t, f, raw.Bytes(), 65536)
	closeFilter(t, f)
	if want := fmt.Sprintf("frame %d\nDONE\n", frame-1); out.String() != want {
		t.Errorf("text %.80q, want %q", &out, want)
	}
}

// Frames too long to be held become lines.
func TestEndlessFrames(t *testing.T) {
	frame := "\r" + strings.Repeat("─", 20_000)
	var out bytes.Buffer
	f := sanitize.New(&out)
	stream(t, f, []byte(strings.Repeat(frame, 20)), 4096)
	closeFilter(t, f)
	checkPlain(t, out.String())
}

// What a Filter keeps is bounded for every kind of stream.
func TestMemory(t *testing.T) {
	for _, raw := range []string{"x", "\xff", "é", "\rx", "x\b", "\x1b]0;", "\x1b[1;", "\n", "a\x1b[5;1H", "\x00"} {
		f := sanitize.New(io.Discard)
		block := []byte(strings.Repeat(raw, 1<<17/len(raw)))
		for range 3 {
			write(t, f, block)
			show(t, f)
		}
		if kept := f.Kept(); kept > 512<<10 {
			t.Errorf("%q: %d KiB are kept", raw, kept>>10)
		}
	}
}

// A string without an end is cut after 4 KiB, and no character with it.
func TestEndlessString(t *testing.T) {
	const limit = 4 << 10
	for _, start := range []string{"\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1bX", "\u009d", "\u0090"} {
		for _, c := range []struct{ payload, want string }{
			{strings.Repeat("x", limit-1) + "\x1b\\", ""},
			{strings.Repeat("x", limit) + "\x1b\\", ""},
			{strings.Repeat("x", limit) + "text", "text"},
			{strings.Repeat("x", limit-1) + "étext", "text"},
			{strings.Repeat("x", limit-1) + "🚀text", "text"},
			{strings.Repeat("x", limit-1) + "\u009ctext", "text"},
			{strings.Repeat("\x80", limit+3) + "text", "text"},
		} {
			raw := "a" + start + c.payload + "\n"
			for _, n := range []int{1, 7, len(raw)} {
				if got, want := inChunks(t, []byte(raw), n), "a"+c.want+"\n"; got != want {
					t.Errorf("%q and %d bytes ending in %q give %.20q, want %q", start, len(c.payload), c.payload[limit-2:], got, want)
				}
			}
		}
	}
}

// A CSI without an end is cut too.
func TestEndlessCSI(t *testing.T) {
	raw := "a\x1b[" + strings.Repeat("1", 4<<10) + "23mb\n"
	for _, n := range []int{1, 7, len(raw)} {
		if got, want := inChunks(t, []byte(raw), n), "a23mb\n"; got != want {
			t.Errorf("pieces of %d give %.20q, want %q", n, got, want)
		}
	}
	if got, want := clean(t, "a\x1b["+strings.Repeat("1", 4<<10-1)+"mb\n"), "ab\n"; got != want {
		t.Errorf("the longest CSI gives %.20q, want %q", got, want)
	}
}

// sink counts writes and fails after some.
type sink struct {
	writes, ok int
}

var errSink = errors.New("sink is full")

func (s *sink) Write(p []byte) (int, error) {
	s.writes++
	if s.writes > s.ok {
		return 0, errSink
	}
	return len(p), nil
}

// One Write leads to one write, and to none if no line ended.
func TestOneWritePerWrite(t *testing.T) {
	s := &sink{ok: 1 << 30}
	f := sanitize.New(s)
	for _, c := range []struct {
		raw    string
		writes int
	}{
		{strings.Repeat("\x1b[1mline\x1b[m\r\n", 3000), 1},
		{"start of a line", 0},
		{" and its end\nnext", 1},
		{"\x1b[", 0},
		{"", 0},
	} {
		s.writes = 0
		write(t, f, []byte(c.raw))
		if s.writes != c.writes {
			t.Errorf("%.20q…: %d writes, want %d", c.raw, s.writes, c.writes)
		}
	}
}

func TestWriteError(t *testing.T) {
	s := &sink{ok: 1}
	f := sanitize.New(s)
	write(t, f, []byte("a\nb"))
	if n, err := f.Write([]byte("\nc")); n != 0 || !errors.Is(err, errSink) {
		t.Errorf("Write = %d, %v, want 0 and the error", n, err)
	}
	if n, err := f.Write([]byte("d\n")); n != 0 || !errors.Is(err, errSink) {
		t.Errorf("next Write = %d, %v, want 0 and the error", n, err)
	}
	if err := f.Show(); !errors.Is(err, errSink) {
		t.Errorf("Show = %v, want the error", err)
	}
	if err := f.Close(); !errors.Is(err, errSink) {
		t.Errorf("Close = %v, want the error", err)
	}
	if s.writes != 2 {
		t.Errorf("%d writes, want none after the error", s.writes)
	}
}

func TestCloseTwice(t *testing.T) {
	var out bytes.Buffer
	f := sanitize.New(&out)
	write(t, f, []byte("a\xe2"))
	closeFilter(t, f)
	closeFilter(t, f)
	if got, want := out.String(), "a\uFFFD"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}
