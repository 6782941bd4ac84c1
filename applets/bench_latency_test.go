package applets_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"shellctl/pkg/client"
)

// BenchmarkFirstOutput times a job that goes on after its first line, from the
// request to the answer with that line.
func BenchmarkFirstOutput(b *testing.B) {
	for _, mode := range bothModes {
		b.Run("mode="+mode, func(b *testing.B) {
			s := shippedServer(b, serverOptions{})
			gate, path := s.openGate("gate")
			// More output than the answer holds is answered at once.
			req := client.RunRequest{Script: "echo first; read x <" + path, Mode: mode, WaitRequest: client.WaitRequest{Timeout: 60, IdleFlush: 60, OutputLimit: 1}}
			var took []time.Duration
			for b.Loop() {
				for range 30 {
					begin := time.Now()
					res, err := s.Run(context.Background(), req)
					took = append(took, time.Since(begin))
					if err != nil || res.Output != "f" || res.Done {
						b.Fatalf("run: %+v, %v", res, err)
					}
					if _, err := gate.WriteString("go\n"); err != nil {
						b.Fatal(err)
					}
					s.finish(res)
				}
			}
			reportTimes(b, took)
		})
	}
}

// BenchmarkWake times what lies between a write in the job, by the job's own
// clock, and the answer to a client that waits: for output, and for the end.
func BenchmarkWake(b *testing.B) {
	for _, mode := range bothModes {
		b.Run("mode="+mode+"/for=output", func(b *testing.B) {
			s := shippedServer(b, serverOptions{})
			gate, path := s.openGate("gate")
			job := s.begin("while read x; do date +%s%N; done <"+path, mode)
			var took []time.Duration
			offset := int64(0)
			for b.Loop() {
				for range 40 {
					took = append(took, s.wake(gate, job.JobID, &offset))
				}
			}
			reportTimes(b, took)
		})
		b.Run("mode="+mode+"/for=end", func(b *testing.B) {
			s := shippedServer(b, serverOptions{})
			var took []time.Duration
			for b.Loop() {
				for range 30 {
					res, err := s.Run(context.Background(), wholeRun("sleep 0.02; date +%s%N", mode))
					now := time.Now()
					if err != nil || !res.Done {
						b.Fatalf("run: %+v, %v", res, err)
					}
					took = append(took, now.Sub(clock(b, res.Output)))
				}
			}
			reportTimes(b, took)
		})
	}
}

// wake lets a job write its clock while a client waits for it.
func (s *testServer) wake(gate *os.File, id string, offset *int64) time.Duration {
	s.t.Helper()
	time.AfterFunc(10*time.Millisecond, func() { _, _ = gate.WriteString("go\n") }) // the wait stands by then
	res, err := s.Wait(context.Background(), id, client.WaitRequest{Offset: *offset, Timeout: 60, IdleFlush: 60, OutputLimit: 1})
	now := time.Now()
	if err != nil || len(res.Output) != 1 {
		s.t.Fatalf("wait: %+v, %v", res, err)
	}
	line, err := s.Wait(context.Background(), id, client.WaitRequest{Offset: *offset, Timeout: 60, IdleFlush: 0.001})
	if err != nil {
		s.t.Fatal(err)
	}
	*offset = line.Offset
	return now.Sub(clock(s.t, line.Output))
}

// clock reads nanoseconds that date has printed.
func clock(tb testing.TB, text string) time.Time {
	tb.Helper()
	ns, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return time.Unix(0, ns)
}

// BenchmarkEcho times a line typed to a program on a terminal, from the request
// to the answer with what the program wrote about it.
func BenchmarkEcho(b *testing.B) {
	s := shippedServer(b, serverOptions{})
	job := s.begin("stty -echo; echo up; exec cat", "pty")
	offset := s.until(job.JobID, "up\n").Offset
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		for range 100 {
			line := fmt.Sprintf("line %d\n", i)
			begin := time.Now()
			res, err := s.Input(context.Background(), job.JobID, line, client.WaitRequest{Offset: offset, Timeout: 60, IdleFlush: 60, OutputLimit: 1})
			took = append(took, time.Since(begin))
			if err != nil || res.Output != "l" {
				b.Fatalf("input: %+v, %v", res, err)
			}
			offset += int64(len(line))
		}
	}
	reportTimes(b, took)
}
