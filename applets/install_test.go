package applets_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"shellctl/pkg/client"
)

// TestInstall installs twice into the same directory, in each way over the
// other, from a name that is in no directory of programs.
func TestInstall(t *testing.T) {
	t.Setenv("GORACE", "atexit_sleep_ms=0") // many short runs
	dir := filepath.Join(t.TempDir(), "new", "bin")
	for _, kind := range []string{"", "--symlink", "--symlink", "", ""} {
		args := []string{"install", "--into", dir}
		if kind != "" {
			args = append(args, kind)
		}
		if out, err := exec.Command(program(t, "shellctl"), args...).CombinedOutput(); err != nil {
			t.Fatalf("install %s: %v\n%s", kind, err, out)
		}
		checkInstalled(t, dir, kind == "--symlink")
	}
	// By itself, as a step of an image does it, and over a program that runs.
	out, err := exec.Command(filepath.Join(dir, "shellctl"), "install", "--into", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("install over itself: %v\n%s", err, out)
	}
	checkInstalled(t, dir, false)
}

func checkInstalled(t *testing.T, dir string, symlink bool) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 5 {
		t.Errorf("%d names (%v): %v, want 5", len(entries), err, entries)
	}
	binary, err := os.Lstat(filepath.Join(dir, "shellctl"))
	if err != nil || binary.Mode() != 0o755 {
		t.Fatalf("shellctl: %v %v, want a file of mode 0755", binary.Mode(), err)
	}
	for _, name := range []string{"shellctl-runner", "shellctl-runner-exit", "shellctl-sanitize-pty", "dify-agent"} {
		path := filepath.Join(dir, name)
		st, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := st.Mode()&os.ModeSymlink != 0; got != symlink {
			t.Errorf("%s: symbolic link %v, want %v", name, got, symlink)
		}
		if to, err := os.Stat(path); err != nil || !os.SameFile(to, binary) {
			t.Errorf("%s is another file than shellctl (%v)", name, err)
		}
		if out, err := exec.Command(path, "--help").CombinedOutput(); err != nil {
			t.Errorf("%s --help: %v\n%s", name, err, out)
		}
	}
}

func TestInstallFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{}, {"--into", file}, {"--into", "/proc"}, {"--into", t.TempDir(), "extra"}} {
		if out, err := exec.Command(program(t, "shellctl"), append([]string{"install"}, args...)...).CombinedOutput(); err == nil {
			t.Errorf("install %q succeeded: %s", args, out)
		}
	}
}

// TestUpgrade replaces the program under a server with a running job, and starts
// the server again: the job goes on under the runner that it has.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	dir := tempDir(t, plainUser)
	install := func() {
		t.Helper()
		if out, err := exec.Command(program(t, "shellctl"), "install", "--symlink", "--into", dir).CombinedOutput(); err != nil {
			t.Fatalf("install: %v\n%s", err, out)
		}
	}
	install()
	path := filepath.Join(dir, "shellctl")
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	// The harness puts its own program first among the arguments.
	s := startServer(t, serverOptions{uid: plainUser, wrap: []string{"sh", "-c", `shift; exec "$0" "$@"`, path}})
	running := s.begin("echo up; read line; echo got $line; exit 4", "pty")
	s.until(running.JobID, "up")
	install()
	if after, err := os.Stat(path); err != nil || os.SameFile(before, after) {
		t.Fatalf("the program was not replaced: %v", err)
	}
	s.stop(syscall.SIGTERM)
	s.start()
	if _, err := s.Input(context.Background(), running.JobID, "hello\n", client.WaitRequest{}); err != nil {
		t.Fatal(err)
	}
	res := s.finish(client.Result{JobID: running.JobID})
	wantExit(t, res, "exited", 4)
	if !strings.Contains(res.Output, "got hello") {
		t.Errorf("output after the upgrade: %q", res.Output)
	}
}
