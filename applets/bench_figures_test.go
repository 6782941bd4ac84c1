package applets_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shellctl/pkg/client"
	"shellctl/pkg/proctree"
)

var shipped struct {
	once sync.Once
	path string
	err  error
}

// shippedServer starts a server of the program as it is shipped, which is built
// once for all benchmarks: linking it takes longer than most of them.
func shippedServer(b *testing.B, opt serverOptions) *testServer {
	b.Helper()
	dir := filepath.Join(filepath.Dir(program(b, "shellctl")), "shipped") // removed with the others
	shipped.once.Do(func() {
		shipped.path = filepath.Join(dir, "shellctl")
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", shipped.path, "..")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			shipped.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if shipped.err != nil {
		b.Fatal(shipped.err)
	}
	opt.program = shipped.path
	return startServer(b, opt)
}

// wholeRun is a run that is answered by the end of the job.
func wholeRun(script, mode string) client.RunRequest {
	return client.RunRequest{Script: script, Mode: mode, WaitRequest: client.WaitRequest{Timeout: 120, IdleFlush: 60}}
}

// reportTimes reports how long things took, instead of the time of a round.
func reportTimes(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	for _, p := range []int{50, 95, 99} {
		b.ReportMetric(milliseconds(percentile(took, p)), fmt.Sprintf("p%d-ms", p))
	}
	b.ReportMetric(0, "ns/op")
}

// percentile is the smallest value that p percent of the sorted ones do not exceed.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[int(math.Ceil(float64(len(sorted)*p)/100))-1]
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// megabytes is a rate.
func megabytes(bytes int, d time.Duration) float64 { return float64(bytes) / 1e6 / d.Seconds() }

// memory reads a line in kB of a file about a process, in MB; 0 if the process is gone.
func memory(tb testing.TB, pid int, file, name string) float64 {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		if proctree.Alive(pid, startOf(pid)) {
			tb.Skipf("memory of another process can not be read: %v", err)
		}
		return 0
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != name+":" {
			continue
		}
		kb, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			tb.Fatal(err)
		}
		return kb * 1024 / 1e6
	}
	return 0 // a zombie has none
}

func startOf(pid int) uint64 {
	st, err := proctree.ReadStat(pid)
	if err != nil {
		return 0
	}
	return st.Start
}

// rss and pss are memory in MB: all that is mapped, and the process's share of it.
func rss(tb testing.TB, pid int) float64 { return memory(tb, pid, "status", "VmRSS") }
func pss(tb testing.TB, pid int) float64 { return memory(tb, pid, "smaps_rollup", "Pss") }

// openGate makes a fifo in a server's home. A job that reads it stands until a
// line is written to what is returned.
func (s *testServer) openGate(name string) (*os.File, string) {
	s.t.Helper()
	path := filepath.Join(s.home, name)
	mkfifo(s.t, path)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = f.Close() })
	return f, path
}
