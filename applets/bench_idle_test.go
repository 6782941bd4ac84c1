package applets_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkIdle measures what a server at rest takes, and what 200 jobs at rest
// take besides their scripts: memory of the runners and of the server, and the
// processor time of all.
func BenchmarkIdle(b *testing.B) {
	b.Run("jobs=0", func(b *testing.B) {
		s := shippedServer(b, serverOptions{})
		for b.Loop() {
			pids := []int{s.cmd.Process.Pid}
			s.run("true", "pty")
			b.ReportMetric(rss(b, pids[0]), "used-rss-MB")
			awaitRest(s)
			b.ReportMetric(idleCPU(b, pids), "cpu-%")
			b.ReportMetric(rss(b, pids[0]), "server-rss-MB")
			b.ReportMetric(pss(b, pids[0]), "server-pss-MB")
		}
		b.ReportMetric(0, "ns/op")
	})
	for _, mode := range bothModes {
		b.Run("jobs=200/mode="+mode, func(b *testing.B) {
			for b.Loop() {
				idleJobs(b, mode, 200)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// idleJobs takes the difference of all processes of the server but the scripts:
// a runner that waits for a job is there before and after.
func idleJobs(b *testing.B, mode string, n int) {
	s := shippedServer(b, serverOptions{})
	_, gate := s.openGate("gate")
	s.run("true", mode)
	ours := func() []int { return append(s.allRunners(), s.cmd.Process.Pid) }
	awaitRest(s)
	before := allPSS(b, ours())
	for range n {
		s.begin("read x <"+gate, mode)
	}
	awaitRunners(b, s, n)
	b.ReportMetric(idleCPU(b, ours()), "cpu-%")
	b.ReportMetric((allPSS(b, ours())-before)/float64(n), "pss-MB/job")
	b.ReportMetric(rss(b, s.cmd.Process.Pid), "server-rss-MB")
	s.cleanup()
}

func allPSS(b *testing.B, pids []int) float64 {
	b.Helper()
	sum := 0.0
	for _, pid := range pids {
		sum += pss(b, pid)
	}
	return sum
}

// awaitRest waits until the server has let go of the runners that stand ready, and
// of memory with them. One that keeps some for good is measured with these.
func awaitRest(s *testServer) {
	for deadline := time.Now().Add(10 * time.Second); len(s.allRunners()) > 0 && time.Now().Before(deadline); {
		<-time.After(50 * time.Millisecond)
	}
	<-time.After(time.Second)
}

// awaitRunners waits until a number of jobs has its script.
func awaitRunners(b *testing.B, s *testServer, n int) {
	b.Helper()
	for deadline := time.Now().Add(60 * time.Second); len(s.runners()) < n; {
		if time.Now().After(deadline) {
			b.Fatalf("%d jobs run, want %d", len(s.runners()), n)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// idleCPU is the share of one processor that processes take over two seconds,
// once what came before has settled.
func idleCPU(b *testing.B, pids []int) float64 {
	b.Helper()
	const span = 2 * time.Second
	<-time.After(time.Second)
	before := cpuTime(b, pids)
	<-time.After(span)
	return float64(cpuTime(b, pids)-before) / float64(span) * 100
}

// cpuTime is the user and system time of processes.
func cpuTime(b *testing.B, pids []int) time.Duration {
	b.Helper()
	const tick = 10 * time.Millisecond // in which the kernel tells it
	var sum time.Duration
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			b.Fatal(err)
		}
		f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		for _, field := range f[11:13] {
			n, err := strconv.Atoi(field)
			if err != nil {
				b.Fatal(err)
			}
			sum += time.Duration(n) * tick
		}
	}
	return sum
}
