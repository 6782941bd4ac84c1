package applets_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shellctl/pkg/client"
)

// smallDisk mounts a file system of its own for the time of a test.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	dir := tempDir(t, 0)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// answered waits until a condition holds that asking the server brings about.
func answered(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s never comes true", what)
		}
	}
}

// wantCode checks that an error is the answer of the server with a code.
func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var e *client.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("error %v, want %s", err, code)
	}
}

// TestDiskFillsUp: with so many pages left, from none to enough for a job, a job
// fails to start with an error and leaves nothing, or ends with what it has; with
// space again the record has the end of each.
func TestDiskFillsUp(t *testing.T) {
	needRoot(t)
	home := smallDisk(t, "size=4m")
	s := startServer(t, serverOptions{home: home, env: []string{"SHELLCTL_ENABLE_PATH_ISOLATION=false"}})
	defer s.cleanup() // before the file system goes
	old := s.run("echo old", "stdio")
	ballast := filepath.Join(home, "ballast")
	_ = exec.Command("sh", "-c", "cat /dev/zero > "+ballast).Run() // until the disk is full
	st, err := os.Stat(ballast)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	var ran []string
	for pages := range int64(24) {
		if err := os.Truncate(ballast, st.Size()-pages*4096); err != nil {
			t.Fatal(err)
		}
		script := "echo hello"
		if pages%3 == 2 {
			script += " #" + strings.Repeat("x", 300_000) // written while it arrives
		}
		res, err := s.Run(ctx, client.RunRequest{Script: script, Mode: bothModes[pages%2]})
		if err != nil {
			wantCode(t, err, "disk_full")
			continue
		}
		res = s.finish(res)
		if res.Status != "exited" && res.Status != "failed" {
			t.Errorf("%d pages: %+v", pages, res)
		}
		ran = append(ran, res.JobID)
		if tail, err := s.Tail(ctx, old.JobID, 0); err != nil || tail.Output != "old\n" {
			t.Errorf("%d pages: an old job: %+v, %v", pages, tail, err)
		}
	}
	if len(ran) == 0 || len(ran) == 24 {
		t.Errorf("%d of 24 jobs ran: this tests nothing", len(ran))
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if dirs := s.jobDirs(); len(dirs) != 1+len(ran) {
		t.Errorf("%d jobs ran, on the disk are %v", len(ran), dirs)
	}
	wantExit(t, s.run("true", "pty"), "exited", 0)
	answered(t, "that all ends are recorded", func() bool {
		l, err := s.List(ctx, "", 200)
		live := 0
		for _, status := range s.record() {
			if strings.HasPrefix(status, "running") {
				live++
			}
		}
		return err == nil && len(l.Jobs) == 2+len(ran) && live == 0
	})
}

// TestNoMoreProcesses: where no process can be started, a job has failed for that
// reason; running ones go on, and all is well again with the limit gone.
func TestNoMoreProcesses(t *testing.T) {
	needRoot(t)
	const alone = 54399 // a user whose processes nobody else starts: they are counted together
	s := startServer(t, serverOptions{uid: alone})
	ctx := context.Background()
	running := s.begin("echo up; read x; exit 3", "pty")
	s.until(running.JobID, "up")
	limit := func(soft string) { // by the user, since root may not have the right
		cmd := exec.Command("prlimit", "--pid", strconv.Itoa(s.cmd.Process.Pid), "--nproc="+soft+":")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: alone, Gid: alone}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("prlimit: %v\n%s", err, out)
		}
	}
	limit("1")
	for _, mode := range bothModes {
		res, err := s.Run(ctx, client.RunRequest{Script: "true", Mode: mode})
		if err != nil || res.Status != "failed" || !res.Done || res.ExitCode != nil || res.Output != "" {
			t.Errorf("%s: %+v, %v", mode, res, err)
		}
		if got := s.record()[res.JobID]; got != "failed|start_failed|null" {
			t.Errorf("%s: record %q", mode, got)
		}
	}
	limit("5000")
	wantExit(t, s.run("true", "stdio"), "exited", 0)
	if _, err := s.Input(ctx, running.JobID, "\n", client.WaitRequest{Timeout: 0.1}); err != nil {
		t.Fatal(err)
	}
	wantExit(t, s.finish(running), "exited", 3)
}

// TestReadOnlyState: a server that can not write its state says so and ends.
func TestReadOnlyState(t *testing.T) {
	needRoot(t)
	disk := smallDisk(t, "size=1m")
	if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program(t, "shellctl"), "serve", "--listen", "127.0.0.1:0", "--state-dir", filepath.Join(disk, "state"))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "read-only file system") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestStateGetsReadOnly: while nothing can be made in the state directory, a job
// is refused with the reason; running ones end as ever, also into the record.
func TestStateGetsReadOnly(t *testing.T) {
	needRoot(t)
	s := startServer(t, serverOptions{uid: plainUser})
	ctx := context.Background()
	running := s.begin("echo up; read x; echo end; exit 3", "pty")
	s.until(running.JobID, "up")
	jobs := filepath.Join(s.state, "jobs")
	if err := os.Chmod(jobs, 0o500); err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{"true", "true #" + strings.Repeat("x", 300_000)} {
		_, err := s.Run(ctx, client.RunRequest{Script: script})
		wantCode(t, err, "internal_error")
		if err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("run: %v", err)
		}
	}
	if _, err := s.Input(ctx, running.JobID, "\n", client.WaitRequest{Timeout: 0.1}); err != nil {
		t.Fatal(err)
	}
	res := s.finish(client.Result{JobID: running.JobID})
	wantExit(t, res, "exited", 3)
	if !strings.HasSuffix(res.Output, "end\n") || s.record()[running.JobID] != "exited|exited|3" {
		t.Errorf("%+v, record %q", res, s.record()[running.JobID])
	}
	if err := os.Chmod(jobs, 0o700); err != nil {
		t.Fatal(err)
	}
	wantExit(t, s.run("true", "stdio"), "exited", 0)
}

// TestRecordIsBusy: another process holds the record for longer than anybody
// waits. A job is refused, one that ends has its end, in the record too once that
// is free, and the server is there all the time.
func TestRecordIsBusy(t *testing.T) {
	s := startServer(t, serverOptions{})
	ctx := context.Background()
	running := s.begin("echo up; read x; exit 3", "pty")
	s.until(running.JobID, "up")
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.state, "shellctl.db")+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 1)
	go func() {
		_, err := s.Run(ctx, client.RunRequest{Script: "true"})
		refused <- err
	}()
	if _, err := s.Input(ctx, running.JobID, "\n", client.WaitRequest{Timeout: 0.001}); err != nil {
		t.Errorf("input: %v", err)
	}
	for waiting := true; waiting; {
		select {
		case err := <-refused:
			wantCode(t, err, "internal_error")
			if err == nil || !strings.Contains(err.Error(), "database is locked") {
				t.Errorf("run: %v", err)
			}
			waiting = false
		default:
			begin := time.Now()
			if _, err := s.Health(ctx); err != nil || time.Since(begin) > 5*time.Second {
				t.Fatalf("health after %v: %v", time.Since(begin), err)
			}
		}
	}
	wantExit(t, s.finish(running), "exited", 3) // from memory, or once the server has given up
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	wantExit(t, s.run("true", "stdio"), "exited", 0)
	answered(t, "that the end is recorded", func() bool { return s.record()[running.JobID] == "exited|exited|3" })
	if dirs := s.jobDirs(); len(dirs) != 2 {
		t.Errorf("on the disk: %v", dirs)
	}
}
