package snapshot

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"shellctl/pkg/job"
)

// swapping exchanges two names of a directory over and over until the test ends.
func swapping(t *testing.T, dir, a, b string) (stop func()) {
	t.Helper()
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-quit:
				return
			default:
			}
			err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, a), unix.AT_FDCWD, filepath.Join(dir, b), unix.RENAME_EXCHANGE)
			if err != nil && err != unix.ENOENT {
				t.Errorf("exchange: %v", err)
				return
			}
		}
	})
	return func() { close(quit); wg.Wait() }
}

// TestRestoreWhileSwapped restores into a directory that a job exchanges with a
// link out of the home.
func TestRestoreWhileSwapped(t *testing.T) {
	s := newStage(t, nodes{"d": {dir: nodes{"sub": {dir: nodes{}}}}, "l": {link: "../outside"}})
	data := pack(t, tarOf(t, fileItem("d/victim", "x"), fileItem("d/sub/f", "x"), linkItem("d/k", "x"), hardItem("d/h", "d/victim")))
	stop := swapping(t, s.home, "d", "l")
	for range 300 / slow {
		// It may fail, as the archive leads through a link half of the time.
		_, err := Restore(t.Context(), bytes.NewReader(data), s.home, RestoreOptions{})
		if err == nil {
			continue
		}
		if e, ok := errors.AsType[*job.Error](err); !ok {
			t.Fatalf("error %v", e)
		}
	}
	stop()
	s.untouched(t)
	s.noTemps(t)
}

// TestSaveWhileSwapped saves a home in which a job exchanges a directory and a
// file for links out of it.
func TestSaveWhileSwapped(t *testing.T) {
	s := newStage(t, nodes{
		"d": {dir: nodes{"own": {data: "x"}}}, "l": {link: "../outside"},
		"f": {data: "own"}, "k": {link: "../outside/victim"},
	})
	stop1, stop2 := swapping(t, s.home, "d", "l"), swapping(t, s.home, "f", "k")
	for range 300 / slow {
		archive, _ := save(t, s.home, SaveOptions{})
		for _, h := range headers(t, archive) {
			if strings.Contains(h.Name, "victim") || h.Typeflag == tar.TypeReg && h.Size == int64(len("precious")) {
				t.Errorf("%q was saved", h.Name)
			}
		}
	}
	stop1()
	stop2()
}

// TestNoSpace refuses a file that can not fit before it is written.
func TestNoSpace(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	must(t, err)
	defer f.Close()
	h := &tar.Header{Size: 1 << 60}
	if err := checkSpace(int(f.Fd()), h, 0); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("error %v, want no space", err)
	}
	h.PAXRecords = map[string]string{"comment": allocated + "4096"}
	if err := checkSpace(int(f.Fd()), h, 0); err != nil {
		t.Errorf("sparse file: %v", err)
	}
}
