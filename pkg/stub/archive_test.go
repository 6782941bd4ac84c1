package stub_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shellctl/pkg/stub"
)

// TestPushSkill uploads an archive whose length is announced, of files that
// keep their time.
func TestPushSkill(t *testing.T) {
	fake, c := newFake(t)
	dir := filepath.Join(t.TempDir(), "s")
	path := write(t, filepath.Join(dir, "SKILL.md"), "text")
	old := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Push(t.Context(), stub.Skill, []string{dir}); err != nil {
		t.Fatal(err)
	}
	first := fake.Skill("s")
	for _, call := range fake.TakeCalls() {
		if call == "chunked" {
			t.Error("the upload had no Content-Length")
		}
	}
	if _, err := c.Push(t.Context(), stub.Skill, []string{dir}); err != nil {
		t.Fatal(err)
	}
	if second := fake.Skill("s"); string(first) != string(second) {
		t.Error("the same directory made two archives")
	}
	into := t.TempDir()
	if _, err := c.PullSkills(t.Context(), []string{"s"}, into); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(filepath.Join(into, "s", "SKILL.md")); err != nil || string(got) != "text" {
		t.Errorf("round trip: %q, %v", got, err)
	}
}

func TestPushStopsAtFirstFailure(t *testing.T) {
	fake, c := newFake(t)
	dir := t.TempDir()
	a, b := write(t, filepath.Join(dir, "a"), "a"), write(t, filepath.Join(dir, "b"), "b")
	fake.Fail("up", "500-text")
	_, err := c.Push(t.Context(), stub.File, []string{a, b})
	wantError(t, err, `upload config file "a": upload data: upload failed with status 500`)
	if calls := fake.TakeCalls(); len(calls) != 2 {
		t.Errorf("calls %q, want the upload of one file and no push", calls)
	}
}

func TestUnreadableFile(t *testing.T) {
	_, c := newFake(t)
	dir, err := os.MkdirTemp("", "stub-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := write(t, filepath.Join(dir, "f"), "x")
	for name, mode := range map[string]os.FileMode{dir: 0o755, path: 0} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	failed := make(chan error)
	go func() {
		if os.Geteuid() == 0 { // who reads everything: this thread shall not, and is not used again
			runtime.LockOSThread()
			if err := unix.Setfsuid(65534); err != nil {
				t.Error(err)
			}
		}
		_, err := c.UploadFile(t.Context(), path)
		failed <- err
	}()
	wantError(t, <-failed, "open file: ", "permission denied")
}

func TestFileNameOfControlCharacters(t *testing.T) {
	fake, c := newFake(t)
	path := write(t, filepath.Join(t.TempDir(), "a\nb"), "x")
	_, err := c.UploadFile(t.Context(), path)
	wantError(t, err, "file name has a control character")
	// Bytes that are no text are the same replacement in the request and the part.
	path = write(t, filepath.Join(t.TempDir(), "a\xffb.txt"), "x")
	if _, err := c.UploadFile(t.Context(), path); err != nil {
		t.Error(err)
	}
	if names, _, _ := fake.Uploads(); len(names) != 1 || names[0] != "a\uFFFDb.txt" {
		t.Errorf("names %q", names)
	}
}
