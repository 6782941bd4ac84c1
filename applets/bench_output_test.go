package applets_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"shellctl/pkg/client"
)

const outputBytes = 100_000_000

// printing is a command that prints that much, in lines.
var printing = fmt.Sprintf("yes 0123456789abcdef | head -c %d", outputBytes)

// BenchmarkOutput times 100 MB of output into the log, and how far the memory of
// server and runner grows meanwhile. The baseline is the same to a file and through
// the terminal of script.
func BenchmarkOutput(b *testing.B) {
	for _, mode := range bothModes {
		b.Run("mode="+mode, func(b *testing.B) {
			s := shippedServer(b, serverOptions{})
			var took time.Duration
			var server, runner float64
			rounds := 0
			for b.Loop() {
				d, p, q := s.printMuch(b, mode, rounds)
				took, server, runner = took+d, max(server, p), max(runner, q)
				rounds++
			}
			b.ReportMetric(megabytes(rounds*outputBytes, took), "MB/s")
			b.ReportMetric(server, "server-growth-MB")
			b.ReportMetric(runner, "runner-growth-MB")
			b.ReportMetric(0, "ns/op")
		})
	}
	b.Run("baseline=file", func(b *testing.B) { printDirectly(b, "sh", "-c", printing+" >out") })
	b.Run("baseline=script", func(b *testing.B) { printDirectly(b, "script", "-qc", printing, "out") })
}

func printDirectly(b *testing.B, argv ...string) {
	if _, err := exec.LookPath(argv[0]); err != nil {
		b.Skipf("%s is not installed", argv[0])
	}
	dir := b.TempDir()
	rounds := 0
	begin := time.Now()
	for b.Loop() {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = dir
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		rounds++
	}
	b.ReportMetric(megabytes(rounds*outputBytes, time.Since(begin)), "MB/s")
	b.ReportMetric(0, "ns/op")
}

// printMuch runs one job and returns how long its output took and how far the
// server and its runner grew. The job stands at a gate until all is measured.
func (s *testServer) printMuch(b *testing.B, mode string, round int) (took time.Duration, server, runner float64) {
	b.Helper()
	gate, path := s.openGate(fmt.Sprintf("gate%d", round))
	job := s.begin("echo up; read x <"+path+"; "+printing, mode)
	s.until(job.JobID, "up\n")
	pids := s.runners()
	if len(pids) != 1 {
		b.Fatalf("runners %v", pids)
	}
	peaks := [2]peak{{pid: s.cmd.Process.Pid}, {pid: pids[0]}}
	for i := range peaks {
		peaks[i].begin(b)
	}
	begin := time.Now()
	if _, err := gate.WriteString("go\n"); err != nil {
		b.Fatal(err)
	}
	const size = outputBytes + int64(len("up\n"))
	for logged := int64(0); logged < size; { // asking the server would be seen in its memory
		for i := range peaks {
			peaks[i].sample(b)
		}
		<-time.After(2 * time.Millisecond)
		st, err := os.Stat(job.OutputPath)
		if err != nil || time.Since(begin) > 2*time.Minute {
			b.Fatalf("%d bytes of output: %v", logged, err)
		}
		logged = st.Size()
	}
	took = time.Since(begin)
	if res, err := s.Wait(context.Background(), job.JobID, client.WaitRequest{Offset: size, Timeout: 60}); err != nil || !res.Done || res.Offset != size {
		b.Fatalf("wait: %+v, %v", res, err)
	}
	if _, err := s.Delete(context.Background(), job.JobID, false, nil); err != nil {
		b.Fatal(err)
	}
	return took, peaks[0].growth(), peaks[1].growth()
}

// peak follows the memory of a process.
type peak struct {
	pid        int
	first, top float64
}

func (p *peak) begin(b *testing.B)  { p.first = rss(b, p.pid); p.top = p.first }
func (p *peak) sample(b *testing.B) { p.top = max(p.top, rss(b, p.pid)) }
func (p *peak) growth() float64     { return p.top - p.first }

// BenchmarkLongLine times 1 MiB without a line end on a terminal, read to its end.
func BenchmarkLongLine(b *testing.B) {
	const size = 1 << 20
	s := shippedServer(b, serverOptions{})
	var took []time.Duration
	for b.Loop() {
		for range 5 {
			begin := time.Now()
			res := s.run(fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x`, size), "pty")
			took = append(took, time.Since(begin))
			if len(res.Output) != size || strings.Trim(res.Output, "x") != "" {
				b.Fatalf("%d bytes of output", len(res.Output))
			}
		}
	}
	b.ReportMetric(megabytes(size, median(took)), "MB/s")
	reportTimes(b, took)
}
