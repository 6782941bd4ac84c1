package applets_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shellctl/pkg/client"
)

var soakTime = flag.Duration("soak", time.Minute, "how long TestSoak runs")

// TestSoak lets 8 clients do all that clients do, in parts of a minute at most,
// and looks at the server at rest after each: what it takes must not grow from the
// first part to the last.
func TestSoak(t *testing.T) {
	needRoot(t)
	s := startServer(t, serverOptions{
		args: []string{"--gc-interval-seconds", "1", "--gc-finished-job-retention-seconds", "1"},
		env:  []string{"GOTRACEBACK=all"},
	})
	part := min(time.Minute, *soakTime/4)
	fresh := s.goroutines()
	var first, last level
	end := time.Now().Add(*soakTime)
	for parts := 0; parts < 2 || time.Now().Before(end); parts++ {
		jobs := s.soak(part)
		last = s.rested(t)
		t.Logf("%4d jobs, then %v", jobs, last)
		if t.Failed() {
			return
		}
		if parts == 0 {
			first = last
		}
	}
	// Loose enough for a busy machine, which makes Go start more threads and collect
	// later and leaves more runners that wait for their next job; what grows with
	// every job is far above that after half an hour.
	for _, c := range []struct {
		what        string
		got, atMost int64
	}{
		{"resident KiB", last.rss, first.rss*3/2 + 16<<10},
		{"descriptors", last.fds, first.fds + 16},
		{"threads", last.threads, first.threads*2 + 8},
		{"processes", last.processes, first.processes + 8},
		{"files", last.files, first.files + 2},
		{"KiB on the disk", last.disk, first.disk*3/2 + 4<<10},
		{"goroutines", s.goroutines(), fresh + 20}, // two for each runner that waits
	} {
		if c.got > c.atMost {
			t.Errorf("%s: %d at the end, at most %d expected\nfirst %v\nlast  %v", c.what, c.got, c.atMost, first, last)
		}
	}
}

// goroutines counts those of the server at rest, which ends by that and is
// started again.
func (s *testServer) goroutines() int64 {
	s.t.Helper()
	before := strings.Count(s.logged(), "\ngoroutine ")
	s.stop(syscall.SIGQUIT)
	n := int64(strings.Count(s.logged(), "\ngoroutine ") - before)
	if n == 0 {
		s.t.Error("the server did not show its goroutines")
	}
	s.t.Logf("%d goroutines", n)
	s.start()
	return n
}

// soak lets clients work for a time and returns how many jobs they had.
func (s *testServer) soak(d time.Duration) int64 {
	var jobs atomic.Int64
	var clients sync.WaitGroup
	end := time.Now().Add(d)
	for range 8 {
		clients.Go(func() {
			for time.Now().Before(end) {
				deed, mode := rand.IntN(len(soakDeeds)), bothModes[rand.IntN(2)]
				if err := soakDeeds[deed](s, mode); err != nil {
					s.t.Errorf("deed %d, %s: %v", deed, mode, err)
					return
				}
				jobs.Add(1)
			}
		})
	}
	clients.Wait()
	return jobs.Load()
}

// soakDeeds are what a client does with one job.
var soakDeeds = []func(*testServer, string) error{
	func(s *testServer, mode string) error { // left to be cleared away
		_, err := s.soakRun("echo out; exit 3", mode, "out\n", 3)
		return err
	},
	func(s *testServer, mode string) error {
		res, err := s.soakRun("seq 1 100; echo err >&2", mode, "", 0)
		if err != nil {
			return err
		}
		_, err = s.Delete(context.Background(), res.JobID, false, nil)
		return err
	},
	func(s *testServer, _ string) error {
		res, err := s.Run(context.Background(), client.RunRequest{Script: "stty -echo; echo up; read x; echo got $x", Mode: "pty", WaitRequest: client.WaitRequest{Timeout: 60, IdleFlush: 0.001}})
		if err != nil || res.Output != "up\n" {
			return fmt.Errorf("run: %+v, %v", res, err)
		}
		res, err = s.Input(context.Background(), res.JobID, "in\n", client.WaitRequest{Offset: res.Offset, Timeout: 60, IdleFlush: 60})
		if err != nil || !res.Done || res.Output != "got in\n" {
			return fmt.Errorf("input: %+v, %v", res, err)
		}
		return nil
	},
	func(s *testServer, mode string) error { // a process that tries to stay
		res, err := s.Run(context.Background(), client.RunRequest{Script: "setsid sleep 1000 & sleep 1000", Mode: mode, WaitRequest: client.WaitRequest{Timeout: 0.01}})
		if err != nil {
			return err
		}
		v, err := s.Terminate(context.Background(), res.JobID, new(float64))
		if err != nil || v.Status != "terminated" {
			return fmt.Errorf("terminate: %+v, %v", v, err)
		}
		return nil
	},
	func(s *testServer, mode string) error { // a client that leaves, and a forced delete
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		res, err := s.Run(context.Background(), client.RunRequest{Script: "printf partial; exec sleep 1000", Mode: mode, WaitRequest: client.WaitRequest{Timeout: 0.01}})
		if err != nil {
			return err
		}
		_, _ = s.Wait(ctx, res.JobID, client.WaitRequest{Timeout: 60, IdleFlush: 60, OutputLimit: 512 << 10})
		_, err = s.Delete(context.Background(), res.JobID, true, new(float64))
		return err
	},
}

// soakRun runs a job to its end and checks it; an empty output is not compared.
func (s *testServer) soakRun(script, mode, output string, code int) (client.Result, error) {
	res, err := s.Run(context.Background(), wholeRun(script, mode))
	switch {
	case err != nil:
		return res, err
	case res.Status != "exited" || res.ExitCode == nil || *res.ExitCode != code:
		return res, fmt.Errorf("the job ended as %+v", res)
	case output != "" && res.Output != output:
		return res, fmt.Errorf("output %q", res.Output)
	}
	return res, nil
}
