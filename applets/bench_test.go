package applets_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"shellctl/pkg/client"
)

// benchServer starts a server of the program as it is shipped.
func benchServer(b *testing.B) *testServer {
	b.Helper()
	dir, err := os.MkdirTemp("", "shellctl-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "shellctl")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
	return startServer(b, serverOptions{program: path})
}

// BenchmarkRun times a job that does nothing through HTTP, record and isolation
// on, against the same shell started directly in the same run, and reports the
// ratio of the medians.
func BenchmarkRun(b *testing.B) {
	s := benchServer(b)
	for _, mode := range bothModes {
		b.Run(mode, func(b *testing.B) {
			ctx := context.Background()
			var direct, through []time.Duration
			for b.Loop() {
				begin := time.Now()
				if err := exec.Command("sh", "-c", "true").Run(); err != nil {
					b.Fatal(err)
				}
				direct = append(direct, time.Since(begin))
				begin = time.Now()
				res, err := s.Run(ctx, client.RunRequest{Script: "true", Mode: mode, WaitRequest: client.WaitRequest{Timeout: 60}})
				through = append(through, time.Since(begin))
				if err != nil || !res.Done {
					b.Fatalf("run: %+v, %v", res, err)
				}
				if _, err := s.Delete(ctx, res.JobID, false, nil); err != nil {
					b.Fatal(err)
				}
			}
			d, t := median(direct), median(through)
			b.ReportMetric(float64(d.Microseconds())/1000, "direct-ms")
			b.ReportMetric(float64(t.Microseconds())/1000, "job-ms")
			b.ReportMetric(float64(t)/float64(d), "ratio")
		})
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
