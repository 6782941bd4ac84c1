package applets_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shellctl/pkg/client"
	"shellctl/pkg/proctree"
)

// TestWaitersDelayNobody: many long waits on silent jobs, short jobs beside them.
func TestWaitersDelayNobody(t *testing.T) {
	s := startServer(t, serverOptions{})
	silent := s.begin("sleep 100", "stdio")
	ctx, cancel := context.WithCancel(context.Background())
	var waits sync.WaitGroup
	for range 32 {
		waits.Go(func() {
			_, err := s.Wait(ctx, silent.JobID, client.WaitRequest{Timeout: 60})
			if ctx.Err() == nil {
				t.Errorf("a wait ended early: %v", err)
			}
		})
	}
	var jobs sync.WaitGroup
	var mu sync.Mutex
	var slowest time.Duration
	for range 8 {
		jobs.Go(func() {
			for range 8 {
				begin := time.Now()
				wantExit(t, s.run("true", "stdio"), "exited", 0)
				mu.Lock()
				slowest = max(slowest, time.Since(begin))
				mu.Unlock()
			}
		})
	}
	jobs.Wait()
	if slowest > 5*time.Second {
		t.Errorf("the slowest of 64 short jobs took %v", slowest)
	}
	// The clients go; the job stays.
	cancel()
	waits.Wait()
	if v, err := s.Status(context.Background(), silent.JobID); err != nil || v.Status != "running" {
		t.Errorf("after its waiters left the job is %+v, %v", v, err)
	}
}

// TestClientLeavesRun: a job does not depend on the request that made it.
func TestClientLeavesRun(t *testing.T) {
	s := startServer(t, serverOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := s.Run(ctx, client.RunRequest{Script: "echo up; read x < $HOME/gate; echo end", Mode: "stdio", WaitRequest: client.WaitRequest{Timeout: 60, IdleFlush: 60}})
		done <- err
	}()
	gate := s.home + "/gate"
	mkfifo(t, gate)
	id := s.onlyJob("running")
	s.until(id, "up")
	cancel()
	if err := <-done; err == nil {
		t.Error("the call did not end with its client")
	}
	if err := os.WriteFile(gate, []byte("x\n"), 0); err != nil {
		t.Fatal(err)
	}
	res := s.finish(client.Result{JobID: id})
	wantExit(t, res, "exited", 0)
	if res.Output != "up\nend\n" {
		t.Errorf("output %q", res.Output)
	}
}

// onlyJob waits until one job is in a state and returns its id.
func (s *testServer) onlyJob(status string) string {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		l, err := s.List(context.Background(), status, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		if len(l.Jobs) == 1 {
			return l.Jobs[0].JobID
		}
	}
	s.t.Fatalf("no job is %s", status)
	return ""
}

// TestQuietJob: that nothing is heard of a job does not change it.
func TestQuietJob(t *testing.T) {
	s := startServer(t, serverOptions{})
	for _, mode := range bothModes {
		res := s.begin("echo start; sleep 1; echo RESULT", mode)
		got := res.Output
		for n := 0; !res.Done; n++ {
			var err error
			if res, err = s.Wait(context.Background(), res.JobID, client.WaitRequest{Offset: res.Offset, Timeout: 0.2, IdleFlush: 0.05}); err != nil {
				t.Fatal(err)
			}
			if !res.Done && (res.Status != "running" || res.ExitCode != nil) {
				t.Errorf("%s: while quiet the job is %s", mode, res.Status)
			}
			got += res.Output
		}
		if got != "start\nRESULT\n" {
			t.Errorf("%s: output %q", mode, got)
		}
	}
}

// TestPartialOutputStays: what was printed before a timeout can be read.
func TestPartialOutputStays(t *testing.T) {
	s := startServer(t, serverOptions{})
	for _, script := range []string{
		"for i in $(seq 1000); do echo tick $i; sleep 0.05; done",
		"for i in $(seq 1000); do echo tick $i; sleep 0.05; done | cat",
	} {
		res, err := s.Run(context.Background(), client.RunRequest{Script: script, WaitRequest: client.WaitRequest{Timeout: 0.5, IdleFlush: 10}})
		if err != nil {
			t.Fatal(err)
		}
		if res.Done || res.Status != "running" || res.ExitCode != nil || !strings.HasPrefix(res.Output, "tick 1\ntick 2\n") {
			t.Errorf("after the timeout: %+v", res)
		}
	}
}

// TestRestIsFree: an idle server, an idle runner and waiting clients use no time
// of the processor.
func TestRestIsFree(t *testing.T) {
	s := startServer(t, serverOptions{})
	for _, mode := range []string{"pty", "stdio", "pty", "stdio"} {
		s.begin("sleep 100", mode)
	}
	silent := s.begin("sleep 100", "pty")
	ctx, cancel := context.WithCancel(context.Background())
	var waits sync.WaitGroup
	for range 8 {
		waits.Go(func() { _, _ = s.Wait(ctx, silent.JobID, client.WaitRequest{Timeout: 60}) })
	}
	defer waits.Wait()
	defer cancel()
	pids := append([]int{s.cmd.Process.Pid}, s.runners()...)
	if len(pids) != 6 {
		t.Fatalf("found %d processes, want a server and 5 runners", len(pids))
	}
	settled := time.NewTimer(2 * time.Second) // what starting took is not meant
	<-settled.C
	before := cpuTicks(t, pids)
	pause := time.NewTimer(3 * time.Second)
	<-pause.C
	// A poll every 50 ms in one of six processes would be more than these.
	if used := cpuTicks(t, pids) - before; used > 2 {
		t.Errorf("3 s of rest took %d ticks of 10 ms", used)
	}
}

// runners returns the runners of a server that have a job.
func (s *testServer) runners() []int {
	return slices.DeleteFunc(s.allRunners(), func(pid int) bool { return len(proctree.Descendants(nil, pid)) == 0 })
}

// allRunners returns the runners of a server, also idle ones.
func (s *testServer) allRunners() []int {
	var out []int
	for _, pid := range proctree.Descendants(nil, s.cmd.Process.Pid) {
		if st, err := proctree.ReadStat(pid); err == nil && st.Parent == s.cmd.Process.Pid {
			out = append(out, pid)
		}
	}
	return out
}

// cpuTicks sums user and system time.
func cpuTicks(t *testing.T, pids []int) int {
	t.Helper()
	sum := 0
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		for _, i := range []int{11, 12} {
			n, err := strconv.Atoi(f[i])
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// TestStalledReaders: connections that are never read from disturb neither the
// job nor other readers, and cost the server little.
func TestStalledReaders(t *testing.T) {
	s := startServer(t, serverOptions{})
	job := s.begin("read x; seq 1 500000", "pty")
	addr := strings.TrimPrefix(s.url, "http://")
	body := `{"offset":0,"timeout":60,"output_limit":524288,"idle_flush_seconds":60}`
	for range 200 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST /v1/jobs/%s/wait HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", job.JobID, s.token, len(body), body)
	}
	if _, err := s.Input(context.Background(), job.JobID, "go\n", client.WaitRequest{Timeout: 5, OutputLimit: 1}); err != nil {
		t.Fatal(err)
	}
	res := s.finish(client.Result{JobID: job.JobID})
	wantExit(t, res, "exited", 0)
	if want := 3388895 + len("go\n"); len(res.Output) != want {
		t.Errorf("%d bytes, want %d", len(res.Output), want)
	}
	begin := time.Now()
	if _, err := s.Health(context.Background()); err != nil || time.Since(begin) > 2*time.Second {
		t.Errorf("health: %v after %v", err, time.Since(begin))
	}
}

// TestHealthUnderLoad: health is answered quickly whatever goes on.
func TestHealthUnderLoad(t *testing.T) {
	s := startServer(t, serverOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var load sync.WaitGroup
	for range 30 {
		id := s.begin("sleep 100", "stdio").JobID
		for range 15 {
			load.Go(func() { _, _ = s.Wait(ctx, id, client.WaitRequest{Timeout: 60}) })
		}
	}
	for range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				_, _ = s.Run(ctx, client.RunRequest{Script: "true"})
			}
		})
	}
	var slowest time.Duration
	for range 50 {
		begin := time.Now()
		if _, err := s.Health(ctx); err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, time.Since(begin))
	}
	if slowest > 2*time.Second {
		t.Errorf("the slowest of 50 answers took %v", slowest)
	}
	cancel()
	load.Wait()
}

// TestWaitsEndWithServer: a stopping server answers its waits at once.
func TestWaitsEndWithServer(t *testing.T) {
	s := startServer(t, serverOptions{})
	job := s.begin("echo a; sleep 100", "stdio")
	s.until(job.JobID, "a")
	answer := make(chan client.Result, 1)
	go func() {
		res, err := s.Wait(context.Background(), job.JobID, client.WaitRequest{Offset: 2, Timeout: 60})
		if err != nil {
			t.Errorf("wait: %v", err)
		}
		answer <- res
	}()
	s.until(job.JobID, "a") // the wait is on its way; whether it has begun does not matter
	begin := time.Now()
	s.stop(15)
	if s.exit != nil || time.Since(begin) > 4*time.Second {
		t.Errorf("the server ended with %v after %v", s.exit, time.Since(begin))
	}
	if res := <-answer; res.Done || res.Status != "" && res.Status != "running" {
		t.Errorf("the wait was answered %+v", res)
	}
	s.start()
	if v, err := s.Status(context.Background(), job.JobID); err != nil || v.Status != "running" {
		t.Errorf("after the restart the job is %+v, %v", v, err)
	}
}
