package stub_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shellctl/pkg/stub"
)

// unpackInto extracts data into a fresh directory.
func unpackInto(t *testing.T, ctx context.Context, data []byte, limits stub.UnpackLimits) (string, error) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	return dir, stub.Unpack(ctx, root, bytes.NewReader(data), int64(len(data)), limits)
}

func TestUnpack(t *testing.T) {
	data := zipOf(t, "a", "1", "./b/c", "2", "d//e", "3", "b/f", "4", "g/", "")
	dir, err := unpackInto(t, t.Context(), data, stub.UnpackLimits{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "1", "b/c": "2", "d/e": "3", "b/f": "4"} {
		if got, err := fs.ReadFile(os.DirFS(dir), name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if fi, err := fs.Stat(os.DirFS(dir), "g"); err != nil || !fi.IsDir() {
		t.Errorf("g: %v", err)
	}
}

func TestUnpackUnsafe(t *testing.T) {
	for _, name := range []string{
		"..", "../x", "/x", "a/../x", "a/..", "//x", `a\b`, `..\x`, `C:\x`, "a\x00b", "", "/", "../", strings.Repeat("n", 300),
	} {
		dir, err := unpackInto(t, t.Context(), zipOf(t, name, ""), stub.UnpackLimits{})
		if err == nil {
			t.Errorf("%q was extracted", name)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 0 {
			t.Errorf("%q left %v", name, entries)
		}
	}
}

// An archive that says it is small and is not.
func TestUnpackLyingHeader(t *testing.T) {
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	w, err := z.Create("bomb")
	if err != nil {
		t.Fatal(err)
	}
	w.Write(make([]byte, 4<<20))
	z.Close()
	data := buf.Bytes()
	// The uncompressed size stands 24 bytes into the entry of the directory.
	entry := bytes.Index(data, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(data[entry+24:], 10)
	dir, err := unpackInto(t, t.Context(), data, stub.UnpackLimits{FreeSize: 1 << 20, Ratio: 10})
	if err == nil {
		t.Error("the archive was extracted")
	}
	if fi, err := os.Stat(filepath.Join(dir, "bomb")); err == nil && fi.Size() > 1<<20 {
		t.Errorf("%d bytes were extracted", fi.Size())
	}
}

func TestUnpackLimits(t *testing.T) {
	many := make([]string, 0, 400)
	for i := range 200 {
		many = append(many, fmt.Sprint(i), "x")
	}
	for _, test := range []struct {
		files  []string
		limits stub.UnpackLimits
		want   string
	}{
		{many, stub.UnpackLimits{Entries: 199}, "more than 199 entries"},
		{many, stub.UnpackLimits{Directory: 8000}, "too long a list of entries"},
		{many, stub.UnpackLimits{Size: 199}, "too large"},
		{[]string{"a", strings.Repeat("x", 10000)}, stub.UnpackLimits{FreeSize: 1000, Ratio: 10}, "too large"},
	} {
		_, err := unpackInto(t, t.Context(), zipOf(t, test.files...), test.limits)
		wantError(t, err, test.want)
	}
	if _, err := unpackInto(t, t.Context(), zipOf(t, many...), stub.UnpackLimits{Entries: 200, Size: 200}); err != nil {
		t.Error(err)
	}
}

// Every truncation, and every changed byte, of an archive is an error or a
// result below the directory, never a crash.
func TestUnpackDamaged(t *testing.T) {
	data := zipOf(t, "SKILL.md", "text of the skill", "dir/file", "more text")
	for n := range data {
		if _, err := unpackInto(t, t.Context(), data[:n], stub.UnpackLimits{}); err == nil {
			t.Errorf("first %d of %d bytes were extracted", n, len(data))
		}
		changed := bytes.Clone(data)
		changed[n] ^= 0x2e
		unpackInto(t, t.Context(), changed, stub.UnpackLimits{})
	}
}

func TestUnpackCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := unpackInto(t, ctx, zipOf(t, "a", "1"), stub.UnpackLimits{})
	wantError(t, err, "interrupted")
}
