package applets_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// BenchmarkColdStart times the start of a server from fork to the first answer of
// /healthz.
func BenchmarkColdStart(b *testing.B) {
	s := shippedServer(b, serverOptions{})
	var took []time.Duration
	for b.Loop() {
		for range 20 {
			took = append(took, s.restart())
		}
	}
	reportTimes(b, took)
}

// restart stops a server and times its next start.
func (s *testServer) restart() time.Duration {
	s.t.Helper()
	s.stop(syscall.SIGTERM)
	begin := time.Now()
	s.start()
	if _, err := s.Health(context.Background()); err != nil {
		s.t.Fatal(err)
	}
	return time.Since(begin)
}

// BenchmarkRecords measures a server with 10,000 ended jobs: its start, its
// memory, the list of them, the state of one, a job beside them, and how long it
// takes to clear all away.
func BenchmarkRecords(b *testing.B) {
	const n = 10_000
	var start, list, status, run, clear []time.Duration
	for b.Loop() {
		s := shippedServer(b, serverOptions{env: []string{"SHELLCTL_MAX_RECORDS=0"}})
		id := s.copyRecord(s.run("echo ended", "stdio").JobID, n)
		for range 5 {
			start = append(start, s.restart())
		}
		list = append(list, repeat(b, 50, func() error {
			l, err := s.List(context.Background(), "", 200)
			if err == nil && len(l.Jobs) != 200 {
				err = fmt.Errorf("%d jobs in the list", len(l.Jobs))
			}
			return err
		})...)
		status = append(status, repeat(b, 50, func() error {
			_, err := s.Status(context.Background(), id)
			return err
		})...)
		run = append(run, repeat(b, 50, func() error {
			_, err := s.trueJob("stdio")
			return err
		})...)
		b.ReportMetric(rss(b, s.cmd.Process.Pid), "server-rss-MB")
		clear = append(clear, s.clearAll())
		s.cleanup()
	}
	for name, took := range map[string][]time.Duration{"start": start, "list": list, "status": status, "true": run, "gc": clear} {
		b.ReportMetric(milliseconds(median(took)), name+"-p50-ms")
	}
	slices.Sort(list)
	b.ReportMetric(milliseconds(percentile(list, 99)), "list-p99-ms")
	b.ReportMetric(0, "ns/op")
}

// repeat times a call a number of times.
func repeat(tb testing.TB, n int, call func() error) []time.Duration {
	tb.Helper()
	var took []time.Duration
	for range n {
		begin := time.Now()
		if err := call(); err != nil {
			tb.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	return took
}

// clearAll starts a server that keeps no ended job, and times that.
func (s *testServer) clearAll() time.Duration {
	s.t.Helper()
	s.opt.args = []string{"--gc-interval-seconds", "1", "--gc-finished-job-retention-seconds", "0"}
	begin := time.Now().Add(-s.restart())
	for len(s.jobDirs()) > 0 {
		if time.Since(begin) > 2*time.Minute {
			s.t.Fatalf("%d jobs are left", len(s.jobDirs()))
		}
		<-time.After(20 * time.Millisecond)
	}
	return time.Since(begin)
}

// copyRecord makes n jobs of an ended one while no server runs: its row under
// other names, and its files. It returns the last name.
func (s *testServer) copyRecord(id string, n int) string {
	s.t.Helper()
	s.stop(syscall.SIGTERM)
	const columns = `mode, cwd, terminal_cols, terminal_rows, status, exit_code, reason, message, created_at, started_at, ended_at, updated_at,
		runner_pid, runner_start, boot_id, control_path, cgroup, mark`
	s.sql(fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO jobs (job_id, %s) SELECT printf('%%016x', i), %s FROM n, jobs`, n-1, columns, columns))
	from := filepath.Join(s.state, "jobs", id)
	files, err := os.ReadDir(from)
	if err != nil {
		s.t.Fatal(err)
	}
	name := ""
	for i := 1; i < n; i++ {
		name = fmt.Sprintf("%016x", i)
		dir := filepath.Join(s.state, "jobs", name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			s.t.Fatal(err)
		}
		for _, f := range files {
			if err := os.Link(filepath.Join(from, f.Name()), filepath.Join(dir, f.Name())); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	s.start()
	return name
}
