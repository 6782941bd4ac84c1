package snapshot

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// memDir returns a directory in memory if the machine has one: these tests are
// about numbers, not about disks.
func memDir(t testing.TB) string {
	t.Helper()
	if dir, err := os.MkdirTemp("/dev/shm", "snapshot-test-"); err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		return dir
	}
	return t.TempDir()
}

// through saves one home and restores it into another, without a file between.
func through(ctx context.Context, home, other string) (saved SaveStats, restored RestoreStats, err error) {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		var err error
		saved, err = Save(ctx, w, home, SaveOptions{})
		w.CloseWithError(err)
		done <- err
	}()
	restored, err = Restore(ctx, r, other, RestoreOptions{})
	r.CloseWithError(err)
	if saveErr := <-done; err == nil {
		err = saveErr
	}
	return saved, restored, err
}

func TestManyFiles(t *testing.T) {
	const dirs, files = 100 / slow, 1000
	base := memDir(t)
	home, other := filepath.Join(base, "a"), filepath.Join(base, "b")
	for d := range dirs {
		dir := filepath.Join(home, fmt.Sprintf("d%02d", d))
		must(t, os.MkdirAll(dir, 0o755))
		for f := range files {
			write(t, filepath.Join(dir, fmt.Sprintf("f%03d", f)), fmt.Sprintf("file %d of %d", f, d))
		}
	}
	must(t, os.Mkdir(other, 0o755))
	saved, restored, err := through(t.Context(), home, other)
	must(t, err)
	if want := int64(dirs + dirs*files); saved.Entries != want || restored.Entries != want {
		t.Errorf("saved %d entries, restored %d, want %d", saved.Entries, restored.Entries, want)
	}
	for d := range dirs {
		for f := range files {
			name := fmt.Sprintf("d%02d/f%03d", d, f)
			data, err := os.ReadFile(filepath.Join(other, name))
			if want := fmt.Sprintf("file %d of %d", f, d); err != nil || string(data) != want {
				t.Fatalf("%s holds %q, %v", name, data, err)
			}
		}
	}
}

// TestHugeSparseFile restores 4 GiB that are almost all holes.
func TestHugeSparseFile(t *testing.T) {
	base := memDir(t)
	home, other := filepath.Join(base, "a"), filepath.Join(base, "b")
	must(t, os.Mkdir(home, 0o755))
	must(t, os.Mkdir(other, 0o755))
	const size = 4<<30/slow&^0xfff + 3
	f, err := os.OpenFile(filepath.Join(home, "disk"), os.O_CREATE|os.O_WRONLY, 0o644)
	must(t, err)
	must(t, f.Truncate(size))
	for _, off := range []int64{0, size / 3, size - 3} {
		_, err = f.WriteAt([]byte("xyz"), off)
		must(t, err)
	}
	must(t, f.Close())
	saved, restored, err := through(t.Context(), home, other)
	must(t, err)
	if saved.Changed != 0 || restored.BytesWritten != size {
		t.Errorf("saved %+v, restored %+v", saved, restored)
	}
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(other, "disk"), &st))
	if st.Size != size || st.Blocks*512 > 1<<20 {
		t.Errorf("restored %d bytes in %d blocks", st.Size, st.Blocks)
	}
	f, err = os.Open(filepath.Join(other, "disk"))
	must(t, err)
	defer f.Close()
	for _, off := range []int64{0, size / 3, size - 3} {
		var b [3]byte
		if _, err := f.ReadAt(b[:], off); err != nil || string(b[:]) != "xyz" {
			t.Errorf("%q at %d, %v", b, off, err)
		}
	}
}
