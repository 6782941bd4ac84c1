package applets_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shellctl/pkg/client"
)

// TestBadHome: a server that can not keep its record says so and ends.
func TestBadHome(t *testing.T) {
	needRoot(t)
	for name, c := range map[string]struct {
		setup, home string
		want        []string
	}{
		"unset":        {"", "", []string{"HOME is not set", "--state-dir"}},
		"missing":      {"", "/nowhere/dify", []string{"make state directory", "/nowhere", "permission denied"}},
		"a file":       {"touch /home/file", "/home/file", []string{"make state directory", "/home/file", "not a directory"}},
		"read-only":    {"mount -o bind,remount,ro /home/dify", "/home/dify", []string{"make state directory", "/home/dify", "read-only file system"}},
		"not ours":     {"chown 0:0 /home/dify; chmod 0755 /home/dify", "/home/dify", []string{"make state directory", "/home/dify", "permission denied"}},
		"full":         {fullHome("16k", "48"), "/home/dify", []string{"/home/dify", "file system is full"}},
		"almost full":  {fullHome("64k", "48"), "/home/dify", []string{"/home/dify", "file system is full"}},
		"record locks": {"mkdir -p /home/dify/.local/share/shellctl/server.lock; chown -R 1000 /home/dify", "/home/dify", []string{"open lock", "server.lock"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			argv := []string{"/usr/bin/env", "-u", "HOME", "shellctl", "serve", "--listen", "0.0.0.0:5004"}
			if c.home != "" {
				argv = append([]string{"/usr/bin/env", "HOME=" + c.home}, argv[3:]...)
			}
			b := newBox(t, c.setup, nil, argv...)
			var exit *exec.ExitError
			if err := b.wait(20 * time.Second); !asError(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("the server ended with %v, want 1", err)
			}
			lines := strings.Split(strings.TrimSpace(b.log.String()), "\n")
			last := lines[len(lines)-1]
			for _, want := range append(c.want, "shellctl: ") {
				if !strings.Contains(last, want) {
					t.Errorf("the last line is %q, want %q in it", last, want)
				}
			}
		})
	}
}

// fullHome mounts a small file system on HOME and fills it up.
func fullHome(size, leave string) string {
	return `mount -t tmpfs -o size=` + size + `,mode=0755,uid=1000,gid=1000 tmpfs /home/dify
dd if=/dev/zero of=/home/dify/ballast bs=1k count=` + leave + ` 2>/dev/null || true`
}

const upstreamTable = `CREATE TABLE jobs (job_id TEXT PRIMARY KEY, script_path TEXT NOT NULL, output_path TEXT NOT NULL,
	cwd TEXT NOT NULL, terminal_cols INTEGER NOT NULL DEFAULT 200, terminal_rows INTEGER NOT NULL DEFAULT 50,
	status TEXT NOT NULL DEFAULT 'created', session_name TEXT NOT NULL, pane_target TEXT NOT NULL, exit_code INTEGER,
	reason TEXT, message TEXT, created_at TEXT NOT NULL, started_at TEXT, ended_at TEXT, updated_at TEXT NOT NULL)`

// TestUpstreamState starts on the state that the program before ours has left,
// with a job that looks alive.
func TestUpstreamState(t *testing.T) {
	needRoot(t)
	t.Parallel()
	home := tempDir(t, plainUser)
	state := filepath.Join(home, ".local/share/shellctl")
	layUpstream(t, state)
	if out, err := exec.Command("chown", "-R", "54321:54321", home).CombinedOutput(); err != nil {
		t.Fatalf("chown: %v %s", err, out)
	}
	s := startServer(t, serverOptions{home: home, uid: plainUser})
	for _, id := range []string{"00c0ffee", "00c0ffef"} {
		s.wantError("GET", "/v1/jobs/"+id, "", 404, "job_not_found")
	}
	if _, body := s.call("GET", "/v1/jobs", ""); strings.TrimSpace(body) != `{"jobs":[]}` {
		t.Errorf("jobs: %s, want none", body)
	}
	wantExit(t, s.run("echo hello", ""), "exited", 0)
	aside, err := filepath.Glob(filepath.Join(state, "shellctl.db.2*Z"))
	if err != nil || len(aside) != 1 {
		t.Errorf("the old record: %q %v, want it set aside", aside, err)
	}
	if !strings.Contains(s.logged(), "was set aside") {
		t.Errorf("the log does not tell of the old record:\n%s", s.logged())
	}
}

func layUpstream(t *testing.T, state string) {
	t.Helper()
	for _, dir := range []string{"runtime/bin", "jobs/00c0ffee", "jobs/00c0ffef"} {
		if err := os.MkdirAll(filepath.Join(state, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"runtime/bin/shellctl-runner": "#!/bin/sh\n", "jobs/00c0ffee/script": "sleep 1000\n", "jobs/00c0ffee/output.log": "half\n",
		"jobs/00c0ffee/start-gate": "", "jobs/00c0ffef/output.log": "whole\n", "jobs/00c0ffef/runner-exit-code": "0\n",
	} {
		if err := os.WriteFile(filepath.Join(state, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(state, "runtime/tmux.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false) // as a killed server leaves it
	db, err := sql.Open("sqlite", filepath.Join(state, "shellctl.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec("PRAGMA journal_mode=WAL;" + upstreamTable + `;
		INSERT INTO jobs (job_id, script_path, output_path, cwd, status, session_name, pane_target, exit_code, created_at, started_at, ended_at, updated_at) VALUES
		('00c0ffee', 'jobs/00c0ffee/script', 'jobs/00c0ffee/output.log', '/', 'running', 's', '%1', NULL, '2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z', NULL, '2026-01-01T00:00:00Z'),
		('00c0ffef', 'jobs/00c0ffef/script', 'jobs/00c0ffef/output.log', '/', 'exited', 's', '%2', 0, '2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z', '2026-01-01T00:00:01Z', '2026-01-01T00:00:01Z')`)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCopyHome copies HOME, which holds the state, while jobs start, write and
// end. OpenShell makes its snapshots so, and one error of cp loses one.
func TestCopyHome(t *testing.T) {
	needRoot(t)
	t.Parallel()
	s := startServer(t, serverOptions{uid: plainUser})
	running := s.begin("while :; do echo line; sleep 0.01; done", "")
	to := tempDir(t, plainUser)
	for i := range 25 {
		var wg sync.WaitGroup
		for _, mode := range []string{"pty", "stdio"} {
			wg.Go(func() {
				for range 4 {
					wantExit(t, s.run("echo hello", mode), "exited", 0)
				}
			})
		}
		cp := exec.Command("setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", "cp", "-a", s.home, filepath.Join(to, strconv.Itoa(i)))
		if out, err := cp.CombinedOutput(); err != nil {
			t.Errorf("copy %d: %v\n%s", i, err, out)
		}
		wg.Wait()
	}
	if v, err := s.Status(context.Background(), running.JobID); err != nil || v.Status != "running" {
		t.Errorf("the job under the copies: %v %v", v, err)
	}
}

// TestEndKeepsFiles: no file of a job goes when the job ends, not even the
// socket. A copy of HOME that has listed it and comes to it later would fail.
func TestEndKeepsFiles(t *testing.T) {
	t.Parallel()
	s := startServer(t, serverOptions{})
	gate := filepath.Join(s.home, "gate")
	mkfifo(t, gate)
	for _, mode := range []string{"pty", "stdio"} {
		job := s.begin("echo up; read x < "+gate, mode)
		s.until(job.JobID, "up")
		dir := filepath.Join(s.state, "jobs", job.JobID)
		before := names(t, dir)
		if !slices.Contains(before, "control.sock") {
			t.Errorf("%s: files of a running job: %q", mode, before)
		}
		if err := os.WriteFile(gate, []byte("x\n"), 0); err != nil {
			t.Fatal(err)
		}
		wantExit(t, s.finish(job), "exited", 0)
		after := names(t, dir)
		for _, name := range before {
			if !slices.Contains(after, name) {
				t.Errorf("%s: %s is gone with the end", mode, name)
			}
		}
	}
}

// TestRuntimeDir: with --runtime-dir the sockets lie there, later servers find
// the jobs by them, and each goes with the directory of its job.
func TestRuntimeDir(t *testing.T) {
	t.Parallel()
	sockets := filepath.Join(t.TempDir(), "run")
	s := startServer(t, serverOptions{args: []string{"--runtime-dir", sockets}})
	one, two := s.begin("echo up; exec sleep 1000", "pty"), s.begin("echo up; exec sleep 1000", "stdio")
	s.until(one.JobID, "up")
	s.until(two.JobID, "up")
	want := []string{one.JobID + ".sock", two.JobID + ".sock"}
	slices.Sort(want)
	if got := names(t, sockets); !slices.Equal(got, want) {
		t.Errorf("sockets %q, want %q", got, want)
	}
	runners := s.runners()
	s.stop(syscall.SIGKILL)
	s.start()
	if v, err := s.Terminate(context.Background(), one.JobID, new(0.0)); err != nil || v.Status != "terminated" {
		t.Errorf("terminate after the restart: %+v, %v", v, err)
	}
	for _, pid := range runners { // that of the other lives: a killed one can remove nothing
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
	if res := s.finish(two); res.Status != "lost" {
		t.Errorf("the job of a killed runner: %+v", res)
	}
	for _, job := range []client.Result{one, two} {
		if _, err := s.Delete(context.Background(), job.JobID, false, nil); err != nil {
			t.Error(err)
		}
	}
	if got := names(t, sockets); len(got) > 0 {
		t.Errorf("sockets %q are left", got)
	}
}
