package applets_test

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"
)

// hogs starts jobs that do nothing but compute, many for each processor: one job
// with all of the loops, or a job for each.
func (s *testServer) hogs(together bool) {
	n := 16 * runtime.NumCPU()
	script, jobs := "while :; do :; done", n
	if together {
		script, jobs = "for i in $(seq "+strconv.Itoa(n)+"); do while :; do :; done & done; wait", 1
	}
	for range jobs {
		s.begin(script, "stdio")
	}
}

func (s *testServer) questions() map[string]func() error {
	return map[string]func() error{
		"health": func() error { _, err := s.Health(context.Background()); return err },
		"list":   func() error { _, err := s.List(context.Background(), "", 0); return err },
	}
}

// TestStarved (F127): jobs that take every processor leave the server able to
// answer, and to run one more. The time is a few times what is expected of the
// slowest answer in a hundred; the benchmark has the figures.
func TestStarved(t *testing.T) {
	for _, together := range []bool{true, false} {
		s := startServer(t, serverOptions{})
		s.hogs(together)
		for name, ask := range s.questions() {
			took := repeat(t, 100, ask)
			slices.Sort(took)
			if p99 := percentile(took, 99); p99 > 2*time.Second {
				t.Errorf("%s, hogs in one job %v: p99 is %v", name, together, p99)
			}
		}
		wantExit(t, s.run("echo hi", ""), "exited", 0)
	}
}

// BenchmarkStarved times answers beside the same jobs.
func BenchmarkStarved(b *testing.B) {
	for name, together := range map[string]bool{"one": true, "many": false} {
		s := shippedServer(b, serverOptions{})
		s.hogs(together)
		for ask, f := range s.questions() {
			b.Run("jobs="+name+"/ask="+ask, func(b *testing.B) {
				var took []time.Duration
				for b.Loop() {
					took = append(took, repeat(b, 300, f)...)
				}
				reportTimes(b, took)
			})
		}
	}
}
