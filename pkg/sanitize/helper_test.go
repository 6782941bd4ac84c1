package sanitize_test

import (
	"bytes"
	"testing"

	"shellctl/pkg/sanitize"
)

// clean returns the text of the pieces written one after the other.
func clean(t testing.TB, pieces ...string) string {
	t.Helper()
	var out bytes.Buffer
	f := sanitize.New(&out)
	for _, p := range pieces {
		write(t, f, []byte(p))
	}
	closeFilter(t, f)
	return out.String()
}

// inChunks returns the text of raw written n bytes at a time.
func inChunks(t testing.TB, raw []byte, n int) string {
	t.Helper()
	var out bytes.Buffer
	f := sanitize.New(&out)
	for len(raw) > 0 {
		k := min(n, len(raw))
		write(t, f, raw[:k])
		raw = raw[k:]
	}
	closeFilter(t, f)
	return out.String()
}

func write(t testing.TB, f *sanitize.Filter, p []byte) {
	t.Helper()
	if n, err := f.Write(p); n != len(p) || err != nil {
		t.Fatalf("Write(%q) = %d, %v", p, n, err)
	}
}

func show(t testing.TB, f *sanitize.Filter) {
	t.Helper()
	if err := f.Show(); err != nil {
		t.Fatalf("Show() = %v", err)
	}
}

func closeFilter(t testing.TB, f *sanitize.Filter) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatalf("Close() = %v", err)
	}
}
