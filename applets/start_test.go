package applets_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shellctl/pkg/client"
)

// TestProgramRemoved: a server goes on when its program was removed or replaced
// on the disk, and its runners are of the version that runs.
func TestProgramRemoved(t *testing.T) {
	b, err := os.ReadFile(program(t, "shellctl"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(tempDir(t, 0), "shellctl")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, serverOptions{program: path})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/false\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, mode := range bothModes {
		wantExit(t, s.run("echo ok", mode), "exited", 0)
	}
}

// TestStartFails: a job that can not be started is told so, with the step and
// the path, and leaves a record that can be asked for or nothing at all.
func TestStartFails(t *testing.T) {
	s := startServer(t, serverOptions{uid: plainUser})
	jobs := filepath.Join(s.state, "jobs")
	if err := os.Chmod(jobs, 0o500); err != nil {
		t.Fatal(err)
	}
	status, body := s.call("POST", "/v1/jobs/run", `{"script":"echo hello"}`)
	if status != 500 || !strings.Contains(body, "make job directory") || !strings.Contains(body, jobs) {
		t.Errorf("a read-only directory: %d %s", status, body)
	}
	if err := os.Chmod(jobs, 0o700); err != nil {
		t.Fatal(err)
	}
	wantExit(t, s.run("echo again", ""), "exited", 0)

	// HOME can not be made: the script does not run, and the reason is its output.
	res := s.runWith(client.RunRequest{Script: "echo ran", Env: map[string]string{"HOME": "/proc/nope"}})
	wantExit(t, res, "exited", 125)
	if !strings.HasPrefix(res.Output, "shellctl: make HOME: ") || strings.Contains(res.Output, "ran") {
		t.Errorf("output %q", res.Output)
	}
	if v, err := s.Status(context.Background(), res.JobID); err != nil || v.Status != "exited" {
		t.Errorf("status %+v, %v", v, err)
	}
}

// TestInteractiveShell: a job that starts an interactive shell is not stopped by
// the terminal, with or without one.
func TestInteractiveShell(t *testing.T) {
	s := startServer(t, serverOptions{})
	for _, mode := range bothModes {
		res := s.run(`bash --norc -ic 'echo ok; (sleep 0.01; echo sub) | cat' 2>/dev/null; echo end`, mode)
		wantExit(t, res, "exited", 0)
		if !strings.Contains(res.Output, "ok\nsub\n") || !strings.HasSuffix(res.Output, "end\n") {
			t.Errorf("%s: output %q", mode, res.Output)
		}
	}
}
