package applets_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// BenchmarkTrue times a job that does nothing, from the request to the answer
// with its end, by one client after another and by many at once. The rate
// includes the deletes.
func BenchmarkTrue(b *testing.B) {
	for _, mode := range bothModes {
		for _, clients := range []int{1, 8, 32} {
			b.Run(fmt.Sprintf("mode=%s/clients=%d", mode, clients), func(b *testing.B) {
				s := shippedServer(b, serverOptions{})
				if _, err := s.trueJob(mode); err != nil { // the first opens a connection
					b.Fatal(err)
				}
				var took []time.Duration
				var all time.Duration
				for b.Loop() {
					begin := time.Now()
					round, err := s.trueJobs(mode, clients)
					if err != nil {
						b.Fatal(err)
					}
					all += time.Since(begin)
					took = append(took, round...)
				}
				b.ReportMetric(float64(len(took))/all.Seconds(), "jobs/s")
				reportTimes(b, took)
			})
		}
	}
}

// trueJobs runs a few hundred jobs from a number of clients.
func (s *testServer) trueJobs(mode string, clients int) ([]time.Duration, error) {
	each := 100
	if clients > 1 {
		each = max(10, 320/clients)
	}
	var mu sync.Mutex
	var took []time.Duration
	var failed error
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range each {
				d, err := s.trueJob(mode)
				mu.Lock()
				took, failed = append(took, d), errors.Join(failed, err)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return took, failed
}

func (s *testServer) trueJob(mode string) (time.Duration, error) {
	ctx := context.Background()
	begin := time.Now()
	res, err := s.Run(ctx, wholeRun("true", mode))
	took := time.Since(begin)
	if err != nil {
		return 0, err
	}
	if res.Status != "exited" || res.ExitCode == nil || *res.ExitCode != 0 {
		return 0, fmt.Errorf("the job ended as %+v", res)
	}
	_, err = s.Delete(ctx, res.JobID, false, nil)
	return took, err
}

// BenchmarkBaseline times the same by other means: a shell started directly, one
// on a terminal, and one in a session of tmux.
func BenchmarkBaseline(b *testing.B) {
	for _, base := range []struct {
		name string
		argv []string
	}{
		{"sh", []string{"sh", "-c", "true"}},
		{"script", []string{"script", "-qc", "true", "/dev/null"}},
		{"tmux", []string{"tmux", "-L", "shellctl-bench", "-f", "/dev/null", "new-session", "-d", "true"}},
	} {
		b.Run("by="+base.name, func(b *testing.B) {
			if _, err := exec.LookPath(base.argv[0]); err != nil {
				b.Skipf("%s is not installed", base.argv[0])
			}
			if base.name == "tmux" {
				holdTmux(b, base.argv[:5])
			}
			var took []time.Duration
			for b.Loop() {
				for range 100 {
					begin := time.Now()
					if out, err := exec.Command(base.argv[0], base.argv[1:]...).CombinedOutput(); err != nil {
						b.Fatalf("%q: %v\n%s", base.argv, err, out)
					}
					took = append(took, time.Since(begin))
				}
			}
			reportTimes(b, took)
		})
	}
}

// holdTmux keeps a tmux server for the time of a benchmark: it ends with its last
// session, and a new one each time would be another figure.
func holdTmux(b *testing.B, tmux []string) {
	b.Helper()
	do := func(args ...string) {
		if out, err := exec.Command(tmux[0], append(tmux[1:5:5], args...)...).CombinedOutput(); err != nil {
			b.Fatalf("tmux %q: %v\n%s", args, err, out)
		}
	}
	do("new-session", "-d", "-s", "hold", "cat")
	b.Cleanup(func() { do("kill-server") })
}
