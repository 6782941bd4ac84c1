package sanitize_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"shellctl/pkg/sanitize"
)

// FuzzFilter looks for a stream whose text depends on how it was split, or is not
// plain. The small limit makes lines too long to be held.
func FuzzFilter(f *testing.F) {
	for i, c := range cases {
		f.Add([]byte(c.raw), uint16(i), uint16(1+i%7), uint8(i%32))
	}
	f.Fuzz(func(t *testing.T, raw []byte, split, chunk uint16, limit uint8) {
		held := int(limit) + utf8.UTFMax
		want := text(t, held, raw)
		i := int(split) % (len(raw) + 1)
		if got := text(t, held, raw[:i], raw[i:]); got != want {
			t.Errorf("split at %d gives %q, whole %q", i, got, want)
		}
		var chunks [][]byte
		for n, rest := 1+int(chunk)%64, raw; len(rest) > 0; {
			k := min(n, len(rest))
			chunks, rest = append(chunks, rest[:k]), rest[k:]
		}
		if got := text(t, held, chunks...); got != want {
			t.Errorf("chunks of %d give %q, whole %q", 1+chunk%64, got, want)
		}
		checkPlain(t, want)
		if bytes.IndexFunc(raw, notPlain) < 0 && utf8.Valid(raw) && want != string(raw) {
			t.Errorf("plain text changed to %q", want)
		}
		checkTiming(t, raw, chunks)
	})
}

// text returns the text of the pieces with at most held bytes held.
func text(t *testing.T, held int, pieces ...[]byte) string {
	t.Helper()
	var out bytes.Buffer
	f := sanitize.NewLimit(&out, held)
	for _, p := range pieces {
		write(t, f, p)
		if f.Held() > held {
			t.Errorf("%d bytes are held, limit %d", f.Held(), held)
		}
		if !utf8.Valid(out.Bytes()) {
			t.Errorf("a character is cut in %q", &out)
		}
	}
	closeFilter(t, f)
	return out.String()
}

// checkPlain checks that s is UTF-8 without controls but TAB and LF.
func checkPlain(t *testing.T, s string) {
	t.Helper()
	if !utf8.ValidString(s) || strings.IndexFunc(s, notPlain) >= 0 {
		t.Errorf("not plain text: %q", s)
	}
}

// notPlain reports whether r is C0, DEL or C1 but not TAB or LF.
func notPlain(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\n' }

// checkTiming checks that showing text early does no more than add lines with text
// that was shown before it was overwritten. BS is left out: it stops at such text.
func checkTiming(t *testing.T, raw []byte, chunks [][]byte) {
	t.Helper()
	if bytes.IndexByte(raw, '\b') >= 0 {
		return
	}
	var out bytes.Buffer
	f := sanitize.New(&out)
	for _, p := range chunks {
		write(t, f, p)
		before := out.String()
		show(t, f)
		if !strings.HasPrefix(out.String(), before) {
			t.Errorf("Show took back %q", before)
		}
	}
	closeFilter(t, f)
	checkPlain(t, out.String())

	// From the end, as a line is shown early before it is what it becomes.
	shown := strings.Split(out.String(), "\n")
	lines := strings.Split(clean(t, string(raw)), "\n")
	if shown[len(shown)-1] != lines[len(lines)-1] {
		t.Errorf("shown early: %q, lines %q do not end it", &out, lines)
	}
	for _, line := range slices.Backward(lines) {
		i := len(shown) - 1
		for i >= 0 && shown[i] != line {
			i--
		}
		if i < 0 {
			t.Fatalf("shown early: %q, line %q is missing", &out, line)
		}
		shown = shown[:i]
	}
}
