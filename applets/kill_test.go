package applets_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shellctl/pkg/client"
	"shellctl/pkg/proctree"
)

// withArg returns the living processes that have an argument.
func withArg(t testing.TB, arg string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil || !strings.Contains("\x00"+string(b), "\x00"+arg+"\x00") {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(f, "/proc/%d/", &pid); err != nil {
			t.Fatal(err)
		}
		if st, err := proctree.ReadStat(pid); err == nil && st.State != 'Z' {
			pids = append(pids, pid)
		}
	}
	return pids
}

// uniqueSleep is an argument of sleep that no other test uses.
func uniqueSleep() string { return fmt.Sprintf("86400.%09d", rand.IntN(1_000_000_000)) }

// families are scripts that start processes in every way, each of which sleeps
// with the argument TAG.
var families = map[string]struct {
	script string
	count  int
}{
	// A child in the group, a setsid child with a child, a double fork, a double
	// fork with setsid, and the leader's own.
	"six": {`sleep TAG &
setsid sh -c 'sleep TAG & sleep TAG' &
(sleep TAG &)
(setsid sleep TAG &)
echo up
sleep TAG`, 6},
	"ignoring": {`trap '' INT TERM HUP
sleep TAG &
setsid sleep TAG &
(setsid sleep TAG &)
echo up
while :; do sleep TAG; done`, 4},
	"stopped": {`setsid sh -c 'sleep TAG & sleep 0.2; kill -STOP $!; wait' &
sleep TAG &
sleep 0.3; kill -STOP $!
echo up
kill -STOP $$`, 2},
	"forking": {`setsid python3 -c 'import os,sys,signal
signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN)
n=0
while True:
  pid = os.fork()
  if pid: os.waitpid(pid, os.WNOHANG); os._exit(0)
  os.setsid()
  if n == 0: os.write(1, b"up\n")
  n += 1
' TAG &
wait; sleep TAG`, 1},
	"clean": {`trap 'echo bye; exit 9' INT
echo up
sleep TAG & wait`, 1},
}

// TestKill: after terminate, and after a forced delete, nothing of a job is alive.
func TestKill(t *testing.T) {
	for name, opt := range map[string]serverOptions{
		"root with cgroups": {},
		"plain user":        {uid: plainUser},
		"no isolation":      {uid: plainUser, env: []string{"SHELLCTL_ENABLE_PATH_ISOLATION=false"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, opt)
			for family := range families {
				for _, mode := range bothModes {
					for _, grace := range []float64{0, 0.3} {
						killFamily(t, s, family, mode, grace)
					}
				}
			}
		})
	}
}

func killFamily(t *testing.T, s *testServer, family, mode string, grace float64) {
	t.Helper()
	tag := uniqueSleep()
	f := families[family]
	job := s.begin(strings.ReplaceAll(f.script, "TAG", tag), mode)
	s.until(job.JobID, "up")
	awaitProcesses(t, tag, f.count)
	begin := time.Now()
	var err error
	if rand.IntN(2) == 0 {
		var v client.View
		if v, err = s.Terminate(context.Background(), job.JobID, &grace); err == nil && (!v.Done || v.Status != "terminated") {
			t.Errorf("%s, %s: %+v", family, mode, v)
		}
	} else {
		_, err = s.Delete(context.Background(), job.JobID, true, &grace)
	}
	took := time.Since(begin)
	if left := withArg(t, tag); err != nil || len(left) > 0 {
		t.Errorf("%s, %s, grace %v: %v, alive %v", family, mode, grace, err, left)
	}
	if limit := time.Duration(grace*float64(time.Second)) + 3*time.Second; took > limit {
		t.Errorf("%s, %s, grace %v: took %v", family, mode, grace, took)
	}
}

// awaitProcesses waits until a job has started all its processes.
func awaitProcesses(t *testing.T, tag string, n int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); len(withArg(t, tag)) < n; {
		if time.Now().After(deadline) {
			t.Fatalf("%d processes, want %d", len(withArg(t, tag)), n)
		}
	}
}

// BenchmarkTerminate measures how long after the last signal terminate answers
// for a job of six processes: all of it with a grace of 0.
func BenchmarkTerminate(b *testing.B) {
	for _, uid := range []uint32{0, plainUser} {
		b.Run(fmt.Sprintf("uid=%d", uid), func(b *testing.B) {
			s := startServer(b, serverOptions{uid: uid})
			grace := 0.0
			var took []time.Duration
			for b.Loop() {
				job := s.begin(strings.ReplaceAll(families["six"].script, "TAG", uniqueSleep()), "pty")
				s.until(job.JobID, "up")
				begin := time.Now()
				if _, err := s.Terminate(context.Background(), job.JobID, &grace); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begin))
			}
			b.ReportMetric(float64(median(took).Microseconds())/1000, "answer-ms")
		})
	}
}

// TestInterruptIsNotTerminate: Ctrl-C as input leaves the job to itself.
func TestInterruptIsNotTerminate(t *testing.T) {
	s := startServer(t, serverOptions{})
	job := s.begin(`trap "echo INT" INT; echo up; while :; do sleep 0.1; done`, "pty")
	s.until(job.JobID, "up")
	ctx := context.Background()
	for range 2 {
		res, err := s.Input(ctx, job.JobID, "\x03", client.WaitRequest{Timeout: 10, OutputLimit: 1})
		if err != nil || res.Done {
			t.Fatalf("input: %+v, %v", res, err)
		}
		s.untilCount(job.JobID, "INT\n")
	}
	grace := 0.2
	if v, err := s.Terminate(ctx, job.JobID, &grace); err != nil || v.Status != "terminated" {
		t.Errorf("terminate: %+v, %v", v, err)
	}
}

// untilCount waits until the output ends with a text.
func (s *testServer) untilCount(id, text string) {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		res, err := s.Tail(context.Background(), id, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		if strings.HasSuffix(res.Output, text) {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("output %q does not end with %q", res.Output, text)
		}
	}
}

// TestSurvivors: what was told to outlive its job does, in both modes, also
// writing to the job's old output; a plain child does not.
func TestSurvivors(t *testing.T) {
	s := startServer(t, serverOptions{uid: plainUser})
	for _, mode := range bothModes {
		stay, writer, plain := uniqueSleep(), uniqueSleep(), uniqueSleep()
		sock := filepath.Join(s.home, mode+".sock")
		res := s.run(fmt.Sprintf(`nohup sleep %s >/dev/null 2>&1 &
setsid sh -c 'while ! test -e "%s.go"; do sleep 0.05; done; echo late; echo late >&2; exec sleep %s' &
nohup python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.bind("%s"); s.listen()
while True: s.accept()[0].send(b"hi")' >/dev/null 2>&1 &
while ! test -S "%s"; do sleep 0.05; done
sleep %s &
sleep 0.2
echo started`, stay, sock, writer, sock, sock, plain), mode)
		wantExit(t, res, "exited", 0)
		if res.Output != "started\n" {
			t.Errorf("%s: output %q", mode, res.Output)
		}
		// Writing to what was its output must not kill it.
		if err := os.WriteFile(sock+".go", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		awaitProcesses(t, writer, 1)
		for deadline := time.Now().Add(20 * time.Second); len(withArg(t, plain)) > 0; {
			if time.Now().After(deadline) {
				t.Fatalf("%s: a plain child outlives its job", mode)
			}
		}
		grace := 0.0
		if _, err := s.Terminate(context.Background(), res.JobID, &grace); err != nil {
			t.Error(err)
		}
		if _, err := s.Delete(context.Background(), res.JobID, true, &grace); err != nil {
			t.Error(err)
		}
		if c, err := net.Dial("unix", sock); err != nil {
			t.Errorf("%s: the daemon is gone: %v", mode, err)
		} else {
			_ = c.Close()
		}
		for _, tag := range []string{stay, writer} {
			if len(withArg(t, tag)) != 1 {
				t.Errorf("%s: a survivor is gone", mode)
			}
		}
		for _, tag := range []string{stay, writer, sock} {
			killArg(t, tag)
		}
	}
}

// killArg ends what a test has left running on purpose.
func killArg(t *testing.T, arg string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), arg) {
			var pid int
			if _, err := fmt.Sscanf(f, "/proc/%d/", &pid); err == nil && pid != os.Getpid() {
				_ = syscall.Kill(pid, syscall.SIGKILL) // gone
			}
		}
	}
}

// TestTerminateRacesWithEnd: whichever is first, the end is one of the two, once.
func TestTerminateRacesWithEnd(t *testing.T) {
	s := startServer(t, serverOptions{})
	ctx := context.Background()
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 125 {
				mode := bothModes[i%2]
				job, err := s.Run(ctx, client.RunRequest{Script: fmt.Sprintf("sleep 0.0%d; exit 3", i%5), Mode: mode, WaitRequest: client.WaitRequest{Timeout: 0.001 * float64(1+i%40)}})
				if err != nil {
					t.Errorf("run: %v", err)
					return
				}
				raceOne(t, s, job.JobID, worker+i)
			}
		})
	}
	wg.Wait()
}

func raceOne(t *testing.T, s *testServer, id string, n int) {
	ctx := context.Background()
	grace := []float64{0, 0.2}[n%2]
	var wg sync.WaitGroup
	var first, second client.View
	wg.Go(func() { first, _ = s.Terminate(ctx, id, &grace) })
	if n%3 == 0 {
		wg.Go(func() { _, _ = s.Input(ctx, id, "x", client.WaitRequest{Timeout: 1, OutputLimit: 1}) })
	}
	wg.Wait()
	second, err := s.Status(ctx, id)
	legal := first.Status == "terminated" || first.Status == "exited" && first.ExitCode != nil && *first.ExitCode == 3
	if err != nil || !first.Done || !legal || second.Status != first.Status {
		t.Errorf("terminate gave %+v, then the job is %+v, %v", first, second, err)
	}
	var deletes sync.WaitGroup
	var mu sync.Mutex
	var done int
	for range 2 {
		deletes.Go(func() {
			if _, err := s.Delete(ctx, id, true, &grace); err == nil {
				mu.Lock()
				done++
				mu.Unlock()
			}
		})
	}
	deletes.Wait()
	if done != 1 {
		t.Errorf("of two deletes %d succeeded", done)
	}
}

// TestStuckJob: a job that can not be ended gently harms no other.
func TestStuckJob(t *testing.T) {
	s := startServer(t, serverOptions{})
	stuck := s.begin(`trap '' INT TERM HUP; stty raw -echo; echo up; while :; do sleep 1; done`, "pty")
	s.until(stuck.JobID, "up")
	grace := 1.0
	done := make(chan client.View)
	go func() {
		v, err := s.Terminate(context.Background(), stuck.JobID, &grace)
		if err != nil {
			t.Errorf("terminate: %v", err)
		}
		done <- v
	}()
	for range 20 {
		wantExit(t, s.run("echo ok", ""), "exited", 0)
	}
	if v := <-done; v.Status != "terminated" {
		t.Errorf("the stuck job is %+v", v)
	}
}

// TestStoppedRunner: a runner that does not answer is killed with its job in time.
func TestStoppedRunner(t *testing.T) {
	s := startServer(t, serverOptions{})
	tag := uniqueSleep()
	job := s.begin("setsid sleep "+tag+" & echo up; sleep 1000", "stdio")
	s.until(job.JobID, "up")
	awaitProcesses(t, tag, 1)
	runner := s.runners()
	if len(runner) != 1 {
		t.Fatalf("runners %v", runner)
	}
	if err := syscall.Kill(runner[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	grace := 0.1
	v, err := s.Terminate(context.Background(), job.JobID, &grace)
	if err != nil || v.Status != "terminated" || v.ExitCode != nil {
		t.Errorf("terminate: %+v, %v", v, err)
	}
	if left := withArg(t, tag); len(left) > 0 {
		t.Errorf("alive: %v", left)
	}
}
