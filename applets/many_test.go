package applets_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shellctl/pkg/job"
	"shellctl/pkg/store"
)

// scaled is a number of things to do, less of them under the race detector.
func scaled(n int) int {
	if underRace {
		return n / 10
	}
	return n
}

// fillState makes a state directory with jobs that have ended just now.
func fillState(t *testing.T, dir string, n int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "jobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	code, now := 0, time.Now()
	for i := range n {
		row := store.Row{ID: manyID(i), Mode: job.ModeStdio, Cwd: "/", Status: job.StatusExited, ExitCode: &code, Reason: "exited", Created: now, Started: now, Ended: now}
		if err := s.Insert(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "jobs", string(row.ID))
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{job.ScriptFile, job.OutputFile, job.StderrFile, job.ExitFile} {
			if err := os.WriteFile(filepath.Join(path, name), []byte("x\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func manyID(i int) job.ID { return job.ID(fmt.Sprintf("%016x", i)) }

// within fails if something takes longer than it may on a loaded machine.
func within(t *testing.T, limit time.Duration, what string, f func() error) {
	t.Helper()
	begin := time.Now()
	if err := f(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	took := time.Since(begin)
	t.Logf("%s: %v", what, took)
	if took > limit {
		t.Errorf("%s took %v", what, took)
	}
}

// TestTenThousandJobs (D08): with so many ended jobs a server starts, lists,
// deletes and runs as fast as ever, stays small, and clears them all away.
func TestTenThousandJobs(t *testing.T) {
	n := scaled(10_000)
	home := tempDir(t, 0)
	fillState(t, filepath.Join(home, ".local/share/shellctl"), n)
	s := startServer(t, serverOptions{home: home, args: []string{"--gc-finished-job-retention-seconds", "3600"}})
	ctx := context.Background()
	use := func() {
		within(t, 2*time.Second, "health", func() error { _, err := s.Health(ctx); return err })
		within(t, 5*time.Second, "the first answer from the record", func() error { _, err := s.Status(ctx, string(manyID(n/2))); return err })
		within(t, 2*time.Second, "list", func() error {
			l, err := s.List(ctx, "", 200)
			if err == nil && (len(l.Jobs) != 200 || l.Jobs[0].JobID != string(manyID(n-1))) {
				return fmt.Errorf("%d jobs, the first %s", len(l.Jobs), l.Jobs[0].JobID)
			}
			return err
		})
		within(t, 2*time.Second, "list of a status", func() error { _, err := s.List(ctx, "running", 200); return err })
		within(t, 5*time.Second, "a job", func() error {
			res := s.run("true", "stdio")
			wantExit(t, res, "exited", 0)
			_, err := s.Delete(ctx, res.JobID, false, nil)
			return err
		})
	}
	use()
	if peak := vmHWM(t, s.cmd.Process.Pid); !underRace && peak > 64<<10 {
		t.Errorf("the server took %d KiB", peak)
	}
	s.stop(syscall.SIGTERM)
	s.start()
	use()
}

// TestManyGo: so many old jobs are cleared away while the server answers.
func TestManyGo(t *testing.T) {
	n := scaled(3000)
	home := tempDir(t, 0)
	fillState(t, filepath.Join(home, ".local/share/shellctl"), n)
	s := startServer(t, serverOptions{home: home, args: []string{"--gc-finished-job-retention-seconds", "0", "--gc-interval-seconds", "0"}})
	ctx := context.Background()
	var slowest time.Duration
	begin := time.Now()
	for left := n; left > 0; {
		at := time.Now()
		l, err := s.List(ctx, "", 1)
		if err != nil {
			t.Fatal(err)
		}
		slowest, left = max(slowest, time.Since(at)), len(l.Jobs)
		if time.Since(begin) > 2*time.Minute {
			t.Fatal("they do not go")
		}
	}
	t.Logf("%d jobs went in %v, the slowest list took %v", n, time.Since(begin), slowest)
	if slowest > 2*time.Second {
		t.Errorf("a list took %v meanwhile", slowest)
	}
	answered(t, "that the directories are gone", func() bool { return len(s.jobDirs()) == 0 })
}

// TestRecordsAreBounded: by number and by bytes, while jobs end; running ones stay.
func TestRecordsAreBounded(t *testing.T) {
	for _, env := range []string{"SHELLCTL_MAX_RECORDS=5", "SHELLCTL_MAX_LOG_BYTES=5000"} {
		s := startServer(t, serverOptions{env: []string{env}})
		running := s.begin("head -c 10000 /dev/zero | tr '\\0' a; read x", "pty")
		var last []string
		for range 12 {
			res := s.run("head -c 1000 /dev/zero | tr '\\0' a", "stdio")
			last = append(last, res.JobID)
		}
		want := strings.Join(last[7:], " ")
		answered(t, env, func() bool {
			l, err := s.List(context.Background(), "exited", 50)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range l.Jobs {
				got = append(got, l.Jobs[len(l.Jobs)-1-i].JobID)
			}
			return strings.Join(got, " ") == want && len(s.jobDirs()) == 6
		})
		if v, err := s.Status(context.Background(), running.JobID); err != nil || v.Status != "running" {
			t.Errorf("%s: the running job: %+v, %v", env, v, err)
		}
	}
}

// TestTerminalsAreGivenBack (F47): jobs with terminals leave none open.
func TestTerminalsAreGivenBack(t *testing.T) {
	s := startServer(t, serverOptions{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range scaled(300) / 4 {
				wantExit(t, s.run("tty; exit 3", "pty"), "exited", 3)
			}
		})
	}
	clients.Wait()
	for _, pid := range append(s.runners(), s.cmd.Process.Pid) {
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		fds, err := os.ReadDir(dir)
		if err != nil {
			continue // it has ended meanwhile
		}
		for _, fd := range fds {
			if to, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && strings.Contains(to, "ptmx") {
				t.Errorf("process %d still has a terminal open", pid)
			}
		}
	}
}
