package applets_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shellctl/pkg/client"
)

// The acceptance checklist of the system that this one replaces, as far as jobs go.
// What is one request and one answer is in testdata/http.

func TestDelayedOutput(t *testing.T) {
	s := startServer(t, serverOptions{})
	res, err := s.Run(context.Background(), client.RunRequest{Script: "sleep 0.5 && echo delayed", WaitRequest: client.WaitRequest{Timeout: 5}})
	if err != nil {
		t.Fatal(err)
	}
	wantExit(t, res, "exited", 0)
	if res.Output != "delayed\n" {
		t.Errorf("output %q", res.Output)
	}
}

func TestManyLines(t *testing.T) {
	s := startServer(t, serverOptions{})
	for _, mode := range []string{"pty", "stdio"} {
		res := s.run("for i in $(seq 20); do echo line $i; done", mode)
		var want strings.Builder
		for i := range 20 {
			fmt.Fprintf(&want, "line %d\n", i+1)
		}
		if res.Output != want.String() {
			t.Errorf("%s: output %q", mode, res.Output)
		}
	}
}

func TestInputReachesProgram(t *testing.T) {
	s := startServer(t, serverOptions{})
	ctx := context.Background()
	job := s.begin(`read line && echo "got:$line"`, "")
	res, err := s.Input(ctx, job.JobID, "hello-input\n", client.WaitRequest{Timeout: 5})
	if err != nil {
		t.Fatal(err)
	}
	wantExit(t, res, "exited", 0)
	if res.Output != "hello-input\ngot:hello-input\n" {
		t.Errorf("output %q", res.Output)
	}
}

func TestParallelRuns(t *testing.T) {
	s := startServer(t, serverOptions{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			res := s.run(fmt.Sprintf("echo job %d", i), "")
			if want := fmt.Sprintf("job %d\n", i); res.Output != want {
				t.Errorf("output %q, want %q", res.Output, want)
			}
		})
	}
	wg.Wait()
}

// TestIsolationDefaults walks through the rows of the checklist about what a job
// may touch.
func TestIsolationDefaults(t *testing.T) {
	outside := tempDir(t, 0)
	if err := os.Chmod(outside, 0o777); err != nil {
		t.Fatal(err)
	}
	on := startServer(t, serverOptions{uid: plainUser})
	off := startServer(t, serverOptions{uid: plainUser, env: []string{"SHELLCTL_ENABLE_PATH_ISOLATION=false"}})
	touch := "touch " + outside + "/x && echo done"
	for _, env := range []map[string]string{
		nil,
		{"SHELLCTL_ENABLE_PATH_ISOLATION": "false"},
		{"SHELLCTL_LANDLOCK_RW_PATHS": outside},
		{"TMPDIR": outside},
		{"HOME": "/"},
		{"HOME": ""},
	} {
		res := on.runWith(client.RunRequest{Script: touch, Env: env, Cwd: on.home})
		if strings.Contains(res.Output, "done") {
			t.Errorf("with env %v a job wrote outside: %q", env, res.Output)
		}
	}
	if res := off.run(touch, ""); res.Output != "done\n" {
		t.Errorf("without isolation: %q", res.Output)
	}
	if res := on.run(`touch "$HOME/a" "$TMPDIR/b" && which ls && ls /usr/bin/env`, ""); *res.ExitCode != 0 {
		t.Errorf("inside HOME: %q", res.Output)
	}
}

// TestServerRestart ends a server in both ways while jobs run and while it is
// away, and starts another on the same state.
func TestServerRestart(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := startServer(t, serverOptions{uid: plainUser})
			testRestart(t, s, sig)
		})
	}
}

func testRestart(t *testing.T, s *testServer, sig syscall.Signal) {
	gate := filepath.Join(s.home, "gate")
	if err := syscall.Mkfifo(gate, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(gate, 0o666); err != nil {
		t.Fatal(err)
	}
	ended := s.run("echo before; exit 3", "")
	long := s.begin(`echo up; read x; echo "got $x"; exit 9`, "pty")
	meanwhile := s.begin("echo one; read x < "+gate+"; echo two; exit 7", "stdio")
	s.until(long.JobID, "up")
	s.until(meanwhile.JobID, "one")
	s.stop(sig)

	// The second job ends while no server lives.
	if err := os.WriteFile(gate, []byte("x\n"), 0); err != nil {
		t.Fatal(err)
	}
	s.start()
	ctx := context.Background()
	if v, err := s.Status(ctx, ended.JobID); err != nil || v.Status != "exited" || *v.ExitCode != 3 {
		t.Errorf("ended job: %+v, %v", v, err)
	}
	if v, err := s.Status(ctx, long.JobID); err != nil || v.Status != "running" || v.ExitCode != nil {
		t.Errorf("running job: %+v, %v", v, err)
	}
	res := s.finish(client.Result{JobID: meanwhile.JobID})
	wantExit(t, res, "exited", 7)
	if res.Output != "one\ntwo\n" {
		t.Errorf("output over the restart %q", res.Output)
	}
	in, err := s.Input(ctx, long.JobID, "again\n", client.WaitRequest{Offset: 3, Timeout: 10})
	if err != nil {
		t.Fatal(err)
	}
	wantExit(t, in, "exited", 9)
	if in.Output != "again\ngot again\n" {
		t.Errorf("output after the restart %q", in.Output)
	}
	l, err := s.List(ctx, "", 0)
	if err != nil || len(l.Jobs) != 3 {
		t.Errorf("list: %+v, %v", l, err)
	}
}

// TestHealthBeforeRecovery holds the record locked: the server must answer
// health before it has looked at any job.
func TestHealthNeedsNoJobs(t *testing.T) {
	s := startServer(t, serverOptions{})
	begin := time.Now()
	if h, err := s.Health(context.Background()); err != nil || h.Status != "ok" {
		t.Fatalf("health: %+v, %v", h, err)
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("health took %v", d)
	}
}
