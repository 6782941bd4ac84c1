package joblog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"shellctl/pkg/config"
)

func create(t testing.TB, limit int64) (*Writer, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "output.log")
	w, err := Create(path, limit)
	if err != nil {
		t.Fatal(err)
	}
	return w, path
}

// writeAll writes data in pieces of size.
func writeAll(t testing.TB, w *Writer, data []byte, size int) {
	t.Helper()
	for len(data) > 0 {
		p := data[:min(size, len(data))]
		if n, err := w.Write(p); n != len(p) || err != nil {
			t.Fatalf("Write of %d bytes = %d, %v", len(p), n, err)
		}
		data = data[len(p):]
	}
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWriterWithoutCap(t *testing.T) {
	data := bytes.Repeat(mixed, 1000)
	for _, size := range []int{1, 7, 4096, len(data)} {
		w, path := create(t, 0)
		writeAll(t, w, data, size)
		if w.Size() != int64(len(data)) {
			t.Errorf("pieces of %d: Size() = %d, want %d", size, w.Size(), len(data))
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(mustRead(t, path), data) {
			t.Errorf("pieces of %d: the file differs", size)
		}
		if st, err := os.Stat(path); err != nil || st.Mode() != 0o600 {
			t.Errorf("mode %v, %v", st.Mode(), err)
		}
	}
}

func TestCreateWhereNoDirectoryIs(t *testing.T) {
	if _, err := Create(filepath.Join(t.TempDir(), "missing", "output.log"), 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Create = %v", err)
	}
}

// text of n bytes in which every place can be told from every other.
func numbered(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%d é€😀 ", i)
	}
	return b.Bytes()[:n]
}

var leftOut = regexp.MustCompile(`\n\[shellctl: (\d+) bytes of output left out\]\n`)

// checkCapped compares a file with the output it is of.
func checkCapped(t *testing.T, file, data []byte, limit int) {
	t.Helper()
	const slack = utf8.UTFMax - 1 // for the character that straddles the cap
	m := leftOut.FindSubmatchIndex(file)
	if len(data) <= limit+config.OutputTailBytes {
		if !bytes.Equal(file, data) {
			t.Errorf("%d bytes below cap and tail were changed", len(data))
		}
		return
	}
	if len(data) <= limit+slack+config.OutputTailBytes && bytes.Equal(file, data) {
		return
	}
	if m == nil {
		t.Fatalf("no line says what is missing of %d bytes", len(data))
	}
	head, tail := file[:m[0]], file[m[1]:]
	left, err := strconv.Atoi(string(file[m[2]:m[3]]))
	if err != nil {
		t.Fatal(err)
	}
	if len(head) > limit+slack || len(head) < limit-slack || len(tail) > config.OutputTailBytes || len(tail) < config.OutputTailBytes-slack {
		t.Errorf("head of %d, tail of %d bytes, want %d and %d", len(head), len(tail), limit, config.OutputTailBytes)
	}
	if len(head)+left+len(tail) != len(data) {
		t.Errorf("%d + %d left out + %d bytes, want %d in all", len(head), left, len(tail), len(data))
	}
	if !bytes.HasPrefix(data, head) || !bytes.HasSuffix(data, tail) {
		t.Error("head or tail are not those of the output")
	}
}

func TestWriterCap(t *testing.T) {
	const tail = config.OutputTailBytes
	for _, limit := range []int{1, 101, 102, 103} {
		for _, n := range []int{limit - 1, limit, limit + 1, limit + tail, limit + tail + 1, limit + tail + 5, limit + 5*tail/2} {
			data := numbered(n)
			for len(data) > 0 && !utf8.Valid(data) {
				data = data[:len(data)-1]
			}
			for _, size := range []int{1, 2, 5, 64, tail + 1, 3 * tail} {
				w, path := create(t, int64(limit))
				if size < 64 { // the bulk at once: what counts are the edges
					edge := min(len(data), limit+16)
					writeAll(t, w, data[:edge], size)
					bulk := max(edge, len(data)-100)
					writeAll(t, w, data[edge:bulk], 1<<15)
					writeAll(t, w, data[bulk:], size)
				} else {
					writeAll(t, w, data, size)
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				file := mustRead(t, path)
				checkCapped(t, file, data, limit)
				if w.Size() != int64(len(file)) {
					t.Errorf("Size() = %d, the file has %d bytes", w.Size(), len(file))
				}
				if !utf8.Valid(file) {
					t.Errorf("a character was split")
				}
				if t.Failed() {
					t.Fatalf("limit %d, %d bytes in pieces of %d", limit, len(data), size)
				}
			}
		}
	}
}

func TestWriterCapOnBytesThatAreNoText(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	random := make([]byte, 100_000)
	for i := range random {
		random[i] = byte(rnd.Uint32())
	}
	for name, data := range map[string][]byte{"random": random, "stray": bytes.Repeat([]byte{0x80}, 100_000)} {
		for _, size := range []int{1, 3, 1000, len(data)} {
			w, path := create(t, 1000)
			writeAll(t, w, data, size)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			checkCapped(t, mustRead(t, path), data, 1000)
			if t.Failed() {
				t.Fatalf("%s in pieces of %d", name, size)
			}
		}
	}
}

// The head does not grow once something was kept back, or the order would be wrong.
func TestWriterCapKeepsTheOrder(t *testing.T) {
	w, path := create(t, 10)
	writeAll(t, w, []byte("12345678€"), 11) // the character does not fit
	writeAll(t, w, []byte("ab"), 1)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := string(mustRead(t, path)); got != "12345678€ab" {
		t.Errorf("%q", got)
	}
}

var notWritten = regexp.MustCompile(`\n\[shellctl: (\d+) bytes of output could not be written\]\n`)

// A full disk stalls nothing. When there is space again the output goes on and
// says how much is missing.
func TestWriterOnFullDisk(t *testing.T) {
	dir := smallDisk(t)
	balloon := filepath.Join(dir, "balloon")
	if err := os.WriteFile(balloon, make([]byte, 32<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "output.log")
	w, err := Create(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	data := numbered(128 << 10)
	writeAll(t, w, data, 1000)
	full := w.Size()
	if st, err := os.Stat(path); err != nil || st.Size() != full || full >= int64(len(data)) {
		t.Fatalf("Size() = %d, file %v, %v", full, st.Size(), err)
	}
	if err := os.Remove(balloon); err != nil {
		t.Fatal(err)
	}
	writeAll(t, w, []byte("it goes on\n"), 100)
	if err := w.Close(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Close() = %v, want that the disk was full", err)
	}
	file := mustRead(t, path)
	m := notWritten.FindSubmatchIndex(file)
	if m == nil {
		t.Fatalf("no line says what is missing: …%q", file[max(0, len(file)-200):])
	}
	lost, _ := strconv.Atoi(string(file[m[2]:m[3]]))
	head, rest := file[:m[0]], string(file[m[1]:])
	if len(head)+lost != len(data) || !bytes.HasPrefix(data, head) {
		t.Errorf("%d written + %d named as lost, want %d in all", len(head), lost, len(data))
	}
	if rest != "it goes on\n" {
		t.Errorf("after the line: %q", rest)
	}
}

// The loss is named too when no output follows.
func TestWriterNamesLossAtClose(t *testing.T) {
	dir := smallDisk(t)
	path := filepath.Join(dir, "output.log")
	w, err := Create(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	balloon := filepath.Join(dir, "balloon")
	fill(t, balloon)
	writeAll(t, w, []byte("lost"), 4)
	if err := os.Remove(balloon); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Close() = %v", err)
	}
	if got := string(mustRead(t, path)); strings.TrimSpace(got) != "[shellctl: 4 bytes of output could not be written]" {
		t.Errorf("%q", got)
	}
}

// A disk that stays full costs only what did not fit.
func TestWriterOnDiskThatStaysFull(t *testing.T) {
	dir := smallDisk(t)
	w, err := Create(filepath.Join(dir, "output.log"), 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	data := numbered(1 << 20)
	writeAll(t, w, data, 3000)
	size := w.Size()
	if err := w.Close(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Close() = %v", err)
	}
	file := mustRead(t, filepath.Join(dir, "output.log"))
	if size == 0 || !bytes.HasPrefix(data, file[:size]) || int64(len(file)) != w.Size() {
		t.Errorf("%d bytes before Close, Size() %d, file %d", size, w.Size(), len(file))
	}
}

func fill(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk can not be filled: %v", err)
	}
}

// smallDisk mounts a file system of 64 KiB, which only root may do.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k"); err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
