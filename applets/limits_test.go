package applets_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shellctl/pkg/client"
)

// runStatus posts a run and returns the status and the header of the answer.
func (s *testServer) runStatus(body string) (int, http.Header) {
	s.t.Helper()
	req, err := http.NewRequest("POST", s.url+"/v1/jobs/run", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Errorf("run: %v", err)
		return 0, nil
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header
}

// TestTooManyJobs: jobs above the limit are refused and leave nothing, however
// many come at once; a job that ends makes room, also after a restart.
func TestTooManyJobs(t *testing.T) {
	const limit = 4
	s := startServer(t, serverOptions{env: []string{fmt.Sprintf("SHELLCTL_MAX_RUNNING_JOBS=%d", limit)}})
	var started, refused atomic.Int32
	var calls sync.WaitGroup
	for i := range 24 {
		script := "read x"
		if i%2 == 0 { // also one that is written to a file while it arrives
			script += " #" + strings.Repeat("x", 300_000)
		}
		calls.Go(func() {
			switch code, h := s.runStatus(`{"script":"` + script + `","timeout":0.001}`); {
			case code == 200:
				started.Add(1)
			case code == 503 && h.Get("Retry-After") == "1":
				refused.Add(1)
			default:
				t.Errorf("run: %d %v", code, h)
			}
		})
	}
	calls.Wait()
	if started.Load() != limit || refused.Load() != 24-limit {
		t.Errorf("%d started, %d refused", started.Load(), refused.Load())
	}
	if dirs := s.jobDirs(); len(dirs) != limit {
		t.Errorf("on the disk: %v", dirs)
	}
	full := func() { s.wantError("POST", "/v1/jobs/run", `{"script":"true"}`, 503, "too_many_jobs") }
	full()
	s.stop(syscall.SIGKILL)
	s.start()
	full() // those of the server before count too
	ctx := context.Background()
	l, err := s.List(ctx, "running", 50)
	if err != nil || len(l.Jobs) != limit {
		t.Fatalf("%d jobs run: %v", len(l.Jobs), err)
	}
	for _, j := range l.Jobs {
		if _, err := s.Terminate(ctx, j.JobID, new(float64)); err != nil {
			t.Fatal(err)
		}
		res := s.run("echo room", "stdio")
		wantExit(t, res, "exited", 0)
	}
	for range 2 * limit { // one that can not be started takes no room
		if _, err := s.Run(ctx, client.RunRequest{Script: "#!/nowhere"}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOOMVictim: when memory runs out, the kernel chooses a job before the
// server and its runner. The file is read by the script, under isolation.
func TestOOMVictim(t *testing.T) {
	for _, uid := range []uint32{0, plainUser} {
		s := startServer(t, serverOptions{uid: uid})
		for _, mode := range bothModes {
			gate := filepath.Join(s.home, "gate")
			mkfifo(t, gate)
			job := s.begin("read x < "+gate+"; sh -c 'cat /proc/self/oom_score_adj'; cat /proc/self/oom_score_adj", mode)
			for _, pid := range append(s.runners(), s.cmd.Process.Pid) {
				if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid)); err != nil || strings.TrimSpace(string(b)) == "500" {
					t.Errorf("process %d: %q, %v", pid, b, err)
				}
			}
			if err := os.WriteFile(gate, []byte("x\n"), 0); err != nil {
				t.Fatal(err)
			}
			if res := s.finish(job); res.Output != "500\n500\n" {
				t.Errorf("user %d, %s: %+v", uid, mode, res)
			}
			if err := os.Remove(gate); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestFewDescriptors: a server whose jobs use up its descriptors refuses more of
// them while clients are still let in and answered.
func TestFewDescriptors(t *testing.T) {
	s := startServer(t, serverOptions{wrap: []string{"sh", "-c", `ulimit -n 128; exec "$@"`, "sh"}})
	ctx := context.Background()
	started := 0
	for refused := 0; refused < 2; {
		switch code, h := s.runStatus(`{"script":"read x","timeout":0.001}`); {
		case code == 200:
			started++
		case code == 503 && h.Get("Retry-After") == "1":
			refused++
		default:
			t.Fatalf("run: %d", code)
		}
		if started > 128 {
			t.Fatalf("%d jobs run", started)
		}
	}
	if started < 20 || len(s.jobDirs()) != started {
		t.Errorf("%d jobs run, on the disk are %v", started, s.jobDirs())
	}
	s.wantError("POST", "/v1/jobs/run", `{"script":"true"}`, 503, "too_many_jobs")
	var clients sync.WaitGroup
	for range 16 { // each with a connection of its own
		clients.Go(func() {
			c := client.New(s.url, s.token)
			defer c.Close()
			if _, err := c.Health(ctx); err != nil {
				t.Errorf("health: %v", err)
			}
			if l, err := c.List(ctx, "running", 200); err != nil || len(l.Jobs) != started {
				t.Errorf("list: %d, %v", len(l.Jobs), err)
			}
		})
	}
	clients.Wait()
	l, err := s.List(ctx, "running", 200)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range l.Jobs[:8] {
		if _, err := s.Delete(ctx, j.JobID, true, new(float64)); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(20 * time.Second)
	for { // the clients' connections close in their own time
		res, err := s.Run(ctx, client.RunRequest{Script: "ulimit -S -n"})
		if err == nil {
			if res = s.finish(res); res.Output != "128\n" {
				t.Errorf("after some have ended: %+v", res)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after some have ended: %v", err)
		}
	}
}

// TestNoDescriptors: connections use up all descriptors. The server waits for
// some to be free again, without burning the processor, and its jobs go on.
func TestNoDescriptors(t *testing.T) {
	needRoot(t)
	s := startServer(t, serverOptions{wrap: []string{"sh", "-c", `ulimit -n 64; exec "$@"`, "sh"}})
	job := s.begin("echo up; read x; exit 7", "pty")
	s.until(job.JobID, "up")
	s.Close()
	pid := s.cmd.Process.Pid
	var idle []net.Conn
	for range 100 {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		idle = append(idle, c)
	}
	deadline := time.Now().Add(20 * time.Second)
	for n := 0; n < 64; {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if n = len(entries); err != nil || time.Now().After(deadline) {
			t.Fatalf("%d descriptors are open: %v", n, err)
		}
	}
	before := cpuTicks(t, []int{pid})
	<-time.After(1500 * time.Millisecond)
	if used := cpuTicks(t, []int{pid}) - before; used > 30 {
		t.Errorf("the server used %d ticks of 150", used)
	}
	for _, c := range idle {
		_ = c.Close()
	}
	if h, err := s.Health(context.Background()); err != nil || h.Status != "ok" {
		t.Errorf("health: %v", err)
	}
	res, err := s.Input(context.Background(), job.JobID, "\n", client.WaitRequest{Timeout: 20, IdleFlush: 20})
	if err != nil {
		t.Fatal(err)
	}
	wantExit(t, s.finish(res), "exited", 7)
}

// TestUnreadWindows: many clients that ask for the largest windows, of bytes
// that are six times as long in JSON, and do not take them cost little.
func TestUnreadWindows(t *testing.T) {
	const clients = 100
	s := startServer(t, serverOptions{})
	job := s.run("head -c 600000 /dev/zero | tr '\\0' '\\001'", "stdio")
	read := func() net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		const body = `{"timeout":0,"output_limit":524288}`
		fmt.Fprintf(c, "POST /v1/jobs/%s/wait HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", job.JobID, s.token, len(body), body)
		if _, err := c.Read(make([]byte, 1)); err != nil { // its answer is under way
			t.Fatal(err)
		}
		return c
	}
	defer read().Close()
	before := vmHWM(t, s.cmd.Process.Pid)
	for range clients {
		defer read().Close()
	}
	grown := vmHWM(t, s.cmd.Process.Pid) - before
	t.Logf("%d KiB a client", grown/clients)
	if !underRace && grown > clients*256 {
		t.Errorf("%d clients cost %d KiB", clients, grown)
	}
	if h, err := s.Health(context.Background()); err != nil || h.Status != "ok" {
		t.Errorf("health: %v", err)
	}
}
