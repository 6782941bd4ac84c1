package applets_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"shellctl/pkg/client"
	"shellctl/pkg/proctree"
)

// sql changes the record while no server holds it.
func (s *testServer) sql(query string, args ...any) {
	s.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.state, "shellctl.db"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(query, args...); err != nil {
		s.t.Fatal(err)
	}
}

// awaitGone waits until a process is gone.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	st, err := proctree.ReadStat(pid)
	if err != nil {
		return
	}
	p, err := proctree.Watch(pid, st.Start)
	if err != nil {
		t.Fatal(err)
	}
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := p.Wait(ctx); err != nil {
		t.Fatalf("process %d stays: %v", pid, err)
	}
}

// TestKilledRunner: a job whose runner was killed is lost, never exited, and
// nothing of it is left, whether the server lived then or not.
func TestKilledRunner(t *testing.T) {
	for name, opt := range map[string]serverOptions{"root": {}, "plain user": {uid: plainUser}} {
		for _, away := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, server away %v", name, away), func(t *testing.T) {
				t.Parallel()
				s := startServer(t, opt)
				for _, mode := range bothModes {
					killRunner(t, s, mode, away)
				}
			})
		}
	}
}

func killRunner(t *testing.T, s *testServer, mode string, away bool) {
	tag := uniqueSleep()
	job := s.begin(strings.ReplaceAll(families["six"].script, "TAG", tag), mode)
	s.until(job.JobID, "up")
	awaitProcesses(t, tag, families["six"].count)
	runner := s.runners()
	if len(runner) != 1 {
		t.Fatalf("runners %v", runner)
	}
	if away {
		s.stop(syscall.SIGKILL)
	}
	if err := syscall.Kill(runner[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, runner[0])
	if away {
		s.start()
	}
	res, err := s.Wait(context.Background(), job.JobID, client.WaitRequest{Timeout: 30, IdleFlush: 30})
	if err != nil || !res.Done || res.Status != "lost" || res.ExitCode != nil || !strings.HasPrefix(res.Output, "up\n") {
		t.Errorf("%s: %+v, %v", mode, res, err)
	}
	if left := withArg(t, tag); len(left) > 0 {
		t.Errorf("%s: alive %v", mode, left)
	}
	if got := s.record()[job.JobID]; got != "lost|runner_lost|null" {
		t.Errorf("%s: record %q", mode, got)
	}
	if _, err := s.Delete(context.Background(), job.JobID, false, nil); err != nil {
		t.Error(err)
	}
}

// TestExitWithoutServer: the end of a job that no server saw is in the record
// before the next one starts.
func TestExitWithoutServer(t *testing.T) {
	s := startServer(t, serverOptions{uid: plainUser})
	gate := filepath.Join(s.home, "gate")
	mkfifo(t, gate)
	job := s.begin("echo up; read x < "+gate+"; kill -TERM $$", "pty")
	s.until(job.JobID, "up")
	runner := s.runners()[0]
	s.stop(syscall.SIGKILL)
	if err := os.WriteFile(gate, []byte("x\n"), 0); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, runner)
	if got := s.record()[job.JobID]; got != "exited|signal:SIGTERM|143" {
		t.Errorf("record %q", got)
	}
	s.start()
	if v, err := s.Status(context.Background(), job.JobID); err != nil || v.Status != "exited" || *v.ExitCode != 143 {
		t.Errorf("status %+v, %v", v, err)
	}
}

// TestRecordLostAtEnd: the record can not be written when a job ends; its
// directory tells the next server.
func TestExitFileCounts(t *testing.T) {
	s := startServer(t, serverOptions{})
	job := s.begin("echo up; read x; exit 6", "pty")
	s.until(job.JobID, "up")
	runner := s.runners()[0]
	s.stop(syscall.SIGKILL)
	db := filepath.Join(s.state, "shellctl.db")
	if err := os.Rename(db, db+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(db+"-wal", db+".away-wal"); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := syscall.Kill(firstChild(t, runner), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, runner)
	if err := os.Rename(db+".away", db); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(db+".away-wal", db+"-wal"); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	s.start()
	res := s.finish(client.Result{JobID: job.JobID})
	wantExit(t, res, "exited", 130)
}

func firstChild(t *testing.T, pid int) int {
	t.Helper()
	below := proctree.Descendants(nil, pid)
	if len(below) == 0 {
		t.Fatalf("process %d has no child", pid)
	}
	return below[0]
}

// TestReusedPID: a pid in the record that now belongs to somebody else is left alone.
func TestReusedPID(t *testing.T) {
	s := startServer(t, serverOptions{})
	job := s.begin("sleep 1000", "stdio")
	runner := s.runners()[0]
	s.stop(syscall.SIGKILL)
	if err := syscall.Kill(runner, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, runner)
	innocent := exec.Command("sleep", "1000")
	if err := innocent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = innocent.Process.Kill()
		_ = innocent.Wait()
	}()
	s.sql(`UPDATE jobs SET runner_pid = ?`, innocent.Process.Pid)
	s.start()
	grace := 0.0
	v, err := s.Terminate(context.Background(), job.JobID, &grace)
	if err != nil || v.Status != "lost" || v.ExitCode != nil {
		t.Errorf("%+v, %v", v, err)
	}
	if st, err := proctree.ReadStat(innocent.Process.Pid); err != nil || st.State == 'Z' {
		t.Error("an innocent process was killed")
	}
}

// TestReboot: a job of an earlier boot is lost for that reason.
func TestReboot(t *testing.T) {
	s := startServer(t, serverOptions{})
	job := s.begin("echo up; sleep 1000", "stdio")
	s.until(job.JobID, "up")
	runner := s.runners()[0]
	s.stop(syscall.SIGKILL)
	for _, pid := range append(proctree.Descendants(nil, runner), runner) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	awaitGone(t, runner)
	s.sql(`UPDATE jobs SET boot_id = 'another'`)
	s.start()
	res := s.finish(client.Result{JobID: job.JobID})
	if res.Status != "lost" || res.ExitCode != nil || res.Output != "up\n" {
		t.Errorf("%+v", res)
	}
	if got := s.record()[job.JobID]; got != "lost|rebooted|null" {
		t.Errorf("record %q", got)
	}
}

// TestPID1: the server as the first process of a pid namespace reaps strangers,
// takes none for a job, and ends cleanly.
func TestPID1(t *testing.T) {
	needRoot(t)
	s := startServer(t, serverOptions{wrap: []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}})
	for range 5 {
		res := s.run(`for i in $(seq 40); do sh -c 'setsid sleep 0.01 & exec true'; done; (setsid sh -c 'sleep 0.1' &); exit 4`, "stdio")
		wantExit(t, res, "exited", 4)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		zombies, others := 0, 0
		for _, pid := range proctree.Descendants(nil, s.cmd.Process.Pid) {
			if st, err := proctree.ReadStat(pid); err == nil && st.State == 'Z' {
				zombies++
			}
			others++
		}
		if zombies == 0 && others == 1 { // the server itself, below unshare
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d zombies, %d processes are left", zombies, others)
		}
	}
	server := firstChild(t, s.cmd.Process.Pid)
	if err := syscall.Kill(server, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-s.gone
	if s.exit != nil {
		t.Errorf("the server ended with %v\n%s", s.exit, s.logged())
	}
}

// TestSignalToTheGroup: an init that signals the whole group, as tini -g does,
// ends the server and no job.
func TestSignalToTheGroup(t *testing.T) {
	s := startServer(t, serverOptions{group: true})
	job := s.begin("echo up; read x; echo got $x", "pty")
	s.until(job.JobID, "up")
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-s.gone
	if s.exit != nil {
		t.Errorf("the server ended with %v", s.exit)
	}
	s.start()
	res, err := s.Input(context.Background(), job.JobID, "on\n", client.WaitRequest{Offset: 3, Timeout: 20, IdleFlush: 20})
	if err != nil || res.Output != "on\ngot on\n" {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestFullDisk: a job goes on when its output can not be written, its record
// says so, nothing else breaks, and all works again when space is back.
func TestFullDisk(t *testing.T) {
	needRoot(t)
	home := tempDir(t, 0)
	if err := syscall.Mount("tmpfs", home, "tmpfs", 0, "size=2m"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(home, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	s := startServer(t, serverOptions{home: home, env: []string{"SHELLCTL_ENABLE_PATH_ISOLATION=false"}})
	defer s.cleanup()                            // before the file system goes
	gate := filepath.Join(tempDir(t, 0), "gate") // on another disk
	mkfifo(t, gate)
	old := s.run("echo old", "")
	job := s.begin("echo up; read x; head -c 3000000 /dev/zero | tr '\\0' a; echo; echo x > "+gate+"; read x < "+gate+"; echo end; exit 5", "pty")
	s.until(job.JobID, "up")
	ctx := context.Background()
	fill := filepath.Join(home, "fill")
	_ = exec.Command("sh", "-c", "cat /dev/zero > "+fill).Run() // until the disk is full
	if _, err := s.Input(ctx, job.JobID, "\n", client.WaitRequest{Timeout: 0.1}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(gate); err != nil { // all was printed, to nowhere
		t.Fatal(err)
	}
	if res, err := s.Tail(ctx, old.JobID, 0); err != nil || res.Output != "old\n" {
		t.Errorf("an old job: %+v, %v", res, err)
	}
	s.wantError("POST", "/v1/jobs/run", `{"script":"echo hello"}`, 507, "disk_full")
	if h, err := s.Health(ctx); err != nil || h.Status != "ok" {
		t.Errorf("health: %v", err)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	if res := s.run("echo again", ""); res.Output != "again\n" {
		t.Errorf("with space again: %+v", res)
	}
	if err := os.WriteFile(gate, []byte("x\n"), 0); err != nil {
		t.Fatal(err)
	}
	res := s.finish(client.Result{JobID: job.JobID})
	wantExit(t, res, "exited", 5)
	// What the terminal still held may follow the note.
	if !strings.Contains(res.Output, " bytes of output could not be written]\n") || !strings.HasSuffix(res.Output, "\nend\n") {
		t.Errorf("the end of the output is %q", tail([]byte(res.Output)))
	}
	if got := s.record()[job.JobID]; got != "exited|output_write_failed|5" {
		t.Errorf("record %q", got)
	}
}
