package applets_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shellctl/pkg/client"
)

func mkfifo(t testing.TB, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestBackgroundChild: a child that holds the terminal or a pipe does not keep
// its job running, and the late output of a short one is still part of it.
func TestBackgroundChild(t *testing.T) {
	s := startServer(t, serverOptions{})
	for _, mode := range bothModes {
		for script, want := range map[string]string{
			"sleep 60 & echo done":                                                  "done\n",
			"sleep 60 </dev/null >/dev/null & echo done":                            "done\n",
			"sleep 60 </dev/null >/dev/null 2>&1 & echo done":                       "done\n",
			"echo BEFORE && sleep 300 & sleep 0.2; echo AFTER":                      "BEFORE\nAFTER\n",
			"nohup sleep 0.9 >/dev/null 2>&1 & (sleep 0.3; echo late) & echo early": "early\nlate\n",
		} {
			begin := time.Now()
			res, err := s.Run(context.Background(), client.RunRequest{Script: script, Mode: mode, WaitRequest: client.WaitRequest{Timeout: 30}})
			if err != nil {
				t.Fatal(err)
			}
			wantExit(t, res, "exited", 0)
			if res.Output != want {
				t.Errorf("%s: %q gave %q, want %q", mode, script, res.Output, want)
			}
			if d := time.Since(begin); d > 8*time.Second {
				t.Errorf("%s: %q took %v", mode, script, d)
			}
		}
	}
}

// TestHelpersFlush: what a script prints through a helper of its own is complete.
func TestHelpersFlush(t *testing.T) {
	s := startServer(t, serverOptions{})
	for _, mode := range bothModes {
		res := s.run("#!/bin/bash\nexec > >(cat); seq 1 100000", mode)
		if len(res.Output) != 588895 || !strings.HasSuffix(res.Output, "\n100000\n") {
			t.Errorf("%s: %d bytes, the end %q", mode, len(res.Output), tail([]byte(res.Output)))
		}
	}
}

// TestPrompt: text without a newline is seen while its job waits.
func TestPrompt(t *testing.T) {
	s := startServer(t, serverOptions{})
	for script, c := range map[string]struct{ prompt, input, rest string }{
		`printf "Continue? [y/N] "; read a; echo "got $a"`:            {"Continue? [y/N] ", "y\n", "y\ngot y\n"},
		"#!/usr/bin/env python3\nprint('hello', input('name? '))":     {"name? ", "Bob\n", "Bob\nhello Bob\n"},
		"#!/bin/bash\nread -s -p 'Password: ' p; echo; echo \"[$p]\"": {"Password: ", "secret\n", "\n[secret]\n"},
	} {
		job := s.begin(script, "pty")
		seen := s.until(job.JobID, c.prompt)
		if seen.Output != c.prompt {
			t.Errorf("%q shows %q, want %q", script, seen.Output, c.prompt)
		}
		res, err := s.Input(context.Background(), job.JobID, c.input, client.WaitRequest{Offset: seen.Offset, Timeout: 20, IdleFlush: 20})
		if err != nil {
			t.Fatal(err)
		}
		if res.Output != c.rest {
			t.Errorf("%q then gives %q, want %q", script, res.Output, c.rest)
		}
	}
}

// TestDotsGrow: progress without newlines is seen while it goes on.
func TestDotsGrow(t *testing.T) {
	s := startServer(t, serverOptions{})
	job := s.begin("while :; do printf .; sleep 0.05; done", "pty")
	s.until(job.JobID, ".")
	s.until(job.JobID, "....................")
}

// TestEndOfFile: Ctrl-D reaches programs as the end of their input.
func TestEndOfFile(t *testing.T) {
	s := startServer(t, serverOptions{})
	job := s.begin("stty -echo; echo ready; tac", "pty")
	s.until(job.JobID, "ready")
	res, err := s.Input(context.Background(), job.JobID, "a\nb\n\x04", client.WaitRequest{Offset: 6, Timeout: 20, IdleFlush: 20})
	if err != nil || res.Output != "b\na\n" {
		t.Errorf("output %q, %v", res.Output, err)
	}
	wantExit(t, res, "exited", 0)
}

// TestEnter: a line feed is the Enter key, all else goes byte for byte.
func TestEnter(t *testing.T) {
	s := startServer(t, serverOptions{})
	job := s.begin("#!/usr/bin/env python3\nimport tty,sys\ntty.setraw(0)\nprint('ready', end='', flush=True)\nprint(repr(sys.stdin.buffer.read(8)))", "pty")
	s.until(job.JobID, "ready")
	res, err := s.Input(context.Background(), job.JobID, "a\n\x1b[A\té", client.WaitRequest{Offset: 5, Timeout: 20, IdleFlush: 20})
	if err != nil || strings.TrimSpace(res.Output) != `b'a\r\x1b[A\t\xc3\xa9'` {
		t.Errorf("the program read %q, %v", res.Output, err)
	}
}

// TestLongInputLines: what the kernel would cut silently is refused.
func TestLongInputLines(t *testing.T) {
	s := startServer(t, serverOptions{})
	ctx := context.Background()
	for n, ok := range map[int]bool{4000: true, 4095: true, 4096: false, 5000: false} {
		job := s.begin("stty -echo; echo ready; head -n1 | wc -c", "pty")
		s.until(job.JobID, "ready")
		res, err := s.Input(ctx, job.JobID, strings.Repeat("x", n)+"\n", client.WaitRequest{Offset: 6, Timeout: 20, IdleFlush: 20})
		if ok {
			if err != nil || res.Output != fmt.Sprintln(n+1) {
				t.Errorf("%d bytes: the program read %q, %v", n, res.Output, err)
			}
			continue
		}
		if e := (*client.Error)(nil); !asError(err, &e) || e.Status != 422 || e.Code != "input_line_too_long" {
			t.Errorf("%d bytes: %v", n, err)
		}
		// Nothing was sent.
		if res, err := s.Input(ctx, job.JobID, "y\n", client.WaitRequest{Offset: 6, Timeout: 20, IdleFlush: 20}); err != nil || res.Output != "2\n" {
			t.Errorf("%d bytes: then the program read %q, %v", n, res.Output, err)
		}
	}
}

// TestInputBlocked: a program that does not read its input ends the call, not the server.
func TestInputBlocked(t *testing.T) {
	s := startServer(t, serverOptions{})
	ctx := context.Background()
	job := s.begin("stty raw -echo; echo ready; sleep 100", "pty")
	s.until(job.JobID, "ready")
	_, err := s.Input(ctx, job.JobID, strings.Repeat("x", 1<<20), client.WaitRequest{Timeout: 0.5})
	e := (*client.Error)(nil)
	if !asError(err, &e) || e.Status != 409 || e.Code != "input_blocked" || !strings.Contains(e.Message, "of 1048576 bytes went in") {
		t.Errorf("input: %v", err)
	}
	wantExit(t, s.run("echo ok", ""), "exited", 0)
}

// TestLargeInput: all of it arrives, in order, however slowly it is read.
func TestLargeInput(t *testing.T) {
	s := startServer(t, serverOptions{})
	job := s.begin("#!/usr/bin/env python3\nimport tty,sys,hashlib\ntty.setraw(0)\nprint('ready', flush=True)\nh=hashlib.sha256()\nn=0\nwhile n<200000:\n  b=sys.stdin.buffer.read1(777)\n  n+=len(b); h.update(b)\nprint(n, h.hexdigest()[:8])", "pty")
	s.until(job.JobID, "ready")
	text := strings.Repeat("0123456789", 20000)
	res, err := s.Input(context.Background(), job.JobID, text, client.WaitRequest{Offset: 6, Timeout: 30, IdleFlush: 30})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", "yes 0123456789 | tr -d '\\n' | head -c 200000 | sha256sum | cut -c1-8").Output()
	if err != nil || strings.TrimSpace(res.Output) != "200000 "+strings.TrimSpace(string(out)) {
		t.Errorf("the program read %q, want 200000 %s", res.Output, out)
	}
}

// TestInputIsCheckedFirst: nothing is sent when anything about the call is wrong.
func TestInputIsCheckedFirst(t *testing.T) {
	s := startServer(t, serverOptions{})
	job := s.begin("stty -echo; echo ready; cat", "pty")
	s.until(job.JobID, "ready")
	path := "/v1/jobs/" + job.JobID + "/input"
	s.wantError("POST", path, `{"text":"sent?\n","offset":99999}`, 400, "invalid_offset")
	s.wantError("POST", path, `{"text":"sent?\n","offset":-1}`, 422, "validation_error")
	s.wantError("POST", path, `{"text":"","offset":0}`, 400, "invalid_request")
	s.wantError("POST", path, `{"offset":0}`, 400, "invalid_request")
	s.wantError("POST", path, `{"text":5}`, 400, "invalid_request")
	s.wantError("POST", path, `{"text":"x","timeout":-1}`, 422, "validation_error")
	res, err := s.Input(context.Background(), job.JobID, "last\n\x04", client.WaitRequest{Timeout: 20, IdleFlush: 20})
	if err != nil || res.Output != "ready\nlast\n" {
		t.Errorf("output %q, %v", res.Output, err)
	}
}

// TestCleanSignals: whatever the server was started with, jobs start with
// nothing ignored and nothing blocked.
func TestCleanSignals(t *testing.T) {
	ignore := `import os,signal,sys
for s in range(1,65):
  try: signal.signal(s, signal.SIG_IGN)
  except (OSError, ValueError): pass
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGINT, signal.SIGPIPE})
os.execvp(sys.argv[1], sys.argv[1:])`
	s := startServer(t, serverOptions{wrap: []string{"python3", "-c", ignore}})
	for _, mode := range bothModes {
		res := s.run("#!/bin/bash\ngrep -E 'Sig(Ign|Blk)' /proc/self/status | cut -f2 | sort -u; yes | head -1; echo ${PIPESTATUS[0]}", mode)
		if want := "0000000000000000\ny\n141\n"; res.Output != want {
			t.Errorf("%s: %q, want %q", mode, res.Output, want)
		}
	}
	grace := 5.0
	// Without exec there is a moment, while the shell forks, in which the shell
	// itself loses a Ctrl-C.
	job := s.begin("exec sleep 100", "pty")
	if v, err := s.Terminate(context.Background(), job.JobID, &grace); err != nil || *v.ExitCode != 130 {
		t.Errorf("Ctrl-C: %+v, %v", v, err)
	}
	s.stop(syscall.SIGTERM)
}

// TestReasons: the record tells the causes of an end apart.
func TestReasons(t *testing.T) {
	s := startServer(t, serverOptions{})
	grace := 0.0
	want := map[string]string{
		s.run("exit 3", "").JobID:                 "exited|exited|3",
		s.run("kill -9 $$", "").JobID:             "exited|signal:SIGKILL|137",
		s.run("kill -TERM $$", "stdio").JobID:     "exited|signal:SIGTERM|143",
		s.run("#!/no/such/interpreter", "").JobID: "exited|start_failed|126",
	}
	job := s.begin("sleep 100", "")
	if _, err := s.Terminate(context.Background(), job.JobID, &grace); err != nil {
		t.Fatal(err)
	}
	want[job.JobID] = "terminated|terminated|137"
	got := s.record()
	for id, w := range want {
		if got[id] != w {
			t.Errorf("record of %s: %q, want %q", id, got[id], w)
		}
	}
}

// record reads status, reason and exit code of all jobs from the database.
func (s *testServer) record() map[string]string {
	s.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.state, "shellctl.db")+"?mode=ro")
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT job_id, status || '|' || ifnull(reason, '') || '|' || ifnull(exit_code, 'null') FROM jobs`)
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var id, text string
		if err := rows.Scan(&id, &text); err != nil {
			s.t.Fatal(err)
		}
		out[id] = text
	}
	return out
}

// TestRepeatedRun: a request repeated with its key finds its job, also over a restart.
func TestRepeatedRun(t *testing.T) {
	s := startServer(t, serverOptions{})
	ctx := context.Background()
	req := client.RunRequest{Script: "echo ran >> $HOME/count; echo out", Key: "key-1"}
	var mu sync.Mutex
	ids := map[string]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			res, err := s.Run(ctx, req)
			if err != nil || res.Output != "out\n" {
				t.Errorf("run: %+v, %v", res, err)
			}
			mu.Lock()
			ids[res.JobID] = true
			mu.Unlock()
		})
	}
	wg.Wait()
	s.stop(syscall.SIGKILL)
	s.start()
	if res, err := s.Run(ctx, req); err != nil || !ids[res.JobID] {
		t.Errorf("after a restart: %+v, %v", res, err)
	}
	req.Script = "echo other"
	_, err := s.Run(ctx, req)
	if e := (*client.Error)(nil); !asError(err, &e) || e.Status != 409 || e.Code != "idempotency_conflict" {
		t.Errorf("another request with the key: %v", err)
	}
	b, err := os.ReadFile(filepath.Join(s.home, "count"))
	if len(ids) != 1 || string(b) != "ran\n" {
		t.Errorf("%d jobs, the script ran %q, %v", len(ids), b, err)
	}
	req.Key = ""
	if res, err := s.Run(ctx, req); err != nil || ids[res.JobID] {
		t.Errorf("without a key: %+v, %v", res, err)
	}
}

// TestLargeScripts: a script may be of any size, and comes through to the byte.
func TestLargeScripts(t *testing.T) {
	s := startServer(t, serverOptions{})
	for _, size := range []int{100 << 10, 1 << 20, 64 << 20} {
		data := strings.Repeat("0123456789abcdef\n", size/17)
		res := s.run("sha256sum <<'EOF' | cut -c1-16\n"+data+"EOF\n", "stdio")
		cmd := exec.Command("sh", "-c", "sha256sum | cut -c1-16")
		cmd.Stdin = strings.NewReader(data)
		if want, err := cmd.Output(); err != nil || res.Output != string(want) {
			t.Errorf("%d bytes: %q, want %q", size, res.Output, want)
		}
	}
	if peak := vmHWM(t, s.cmd.Process.Pid); !underRace && peak > 48<<10 {
		t.Errorf("the server took %d KiB for a script of 64 MiB", peak)
	}
}

// TestEnvironmentLimits: what the kernel would not take is refused by name.
func TestEnvironmentLimits(t *testing.T) {
	s := startServer(t, serverOptions{})
	ctx := context.Background()
	fits := strings.Repeat("v", 128<<10-len("BIG=")-1)
	res := s.runWith(client.RunRequest{Script: "echo ${#BIG}", Env: map[string]string{"BIG": fits}})
	if res.Output != fmt.Sprintln(len(fits)) {
		t.Errorf("a value of %d bytes gave %q", len(fits), res.Output)
	}
	_, err := s.Run(ctx, client.RunRequest{Script: "true", Env: map[string]string{"BIG": fits + "v"}})
	if e := (*client.Error)(nil); !asError(err, &e) || e.Status != 422 || !strings.Contains(e.Message, "BIG") {
		t.Errorf("a value that is too long: %v", err)
	}
	many := map[string]string{}
	for i := range 30 {
		many[fmt.Sprintf("V%d", i)] = strings.Repeat("v", 100<<10)
	}
	_, err = s.Run(ctx, client.RunRequest{Script: "true", Env: many})
	if e := (*client.Error)(nil); !asError(err, &e) || e.Status != 422 {
		t.Errorf("an environment of 3 MiB: %v", err)
	}
	if dirs := s.jobDirs(); len(dirs) != 1 {
		t.Errorf("refused jobs left %v", dirs)
	}
}

// TestShebangInParallel: executing a fresh script never fails for being written.
func TestShebangInParallel(t *testing.T) {
	s := startServer(t, serverOptions{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 15 {
				res := s.run("#!/bin/sh\necho $0", "stdio")
				wantExit(t, res, "exited", 0)
			}
		})
	}
	wg.Wait()
}

// TestNoSecretInView: neither script nor environment of a job, nor the token, is
// in an argument list, in the environment of a runner or in the log.
func TestNoSecretInView(t *testing.T) {
	s := startServer(t, serverOptions{})
	job := s.begin("TOKEN=scr1pt-secret; sleep 100", "stdio")
	env, err := s.Run(context.Background(), client.RunRequest{Script: "sleep 100", Env: map[string]string{"KEY": "env-s3cret"}, WaitRequest: client.WaitRequest{Timeout: 0.1}})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range append(s.runners(), s.cmd.Process.Pid) {
		files = append(files, fmt.Sprintf("/proc/%d/environ", pid))
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // gone
		}
		for _, secret := range []string{"scr1pt-secret", "env-s3cret", testToken} {
			if strings.Contains(string(b), secret) {
				t.Errorf("%s shows %s: %q", f, secret, b)
			}
		}
	}
	for _, secret := range []string{"scr1pt-secret", "env-s3cret", testToken} {
		if strings.Contains(s.logged(), secret) {
			t.Errorf("the log shows %s", secret)
		}
	}
	_, _ = job, env
}

// TestBadCwd: each bad kind of a working directory gets a clear answer.
func TestBadCwd(t *testing.T) {
	s := startServer(t, serverOptions{uid: plainUser})
	closed := filepath.Join(s.home, "closed")
	if err := os.Mkdir(closed, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(closed, plainUser, plainUser); err != nil {
		t.Fatal(err)
	}
	loop := filepath.Join(s.home, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	for _, cwd := range []string{"/nonexistent", "/etc/passwd", "relative/x", closed, closed + "/x", loop, strings.Repeat("/x", 3000), strings.Repeat("y", 300)} {
		s.wantError("POST", "/v1/jobs/run", fmt.Sprintf(`{"script":"pwd","cwd":%q}`, cwd), 400, "invalid_cwd")
	}
	if dirs := s.jobDirs(); len(dirs) != 0 {
		t.Errorf("refused jobs left %v", dirs)
	}
	// A job that removes its own working directory; the next one is told.
	gone := filepath.Join(s.home, "gone")
	if err := os.Mkdir(gone, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(gone, 0o777); err != nil {
		t.Fatal(err)
	}
	res := s.runWith(client.RunRequest{Script: `rmdir "$PWD"; echo rc=$?`, Cwd: gone})
	if res.Output != "rc=0\n" {
		t.Errorf("rmdir: %q", res.Output)
	}
	s.wantError("POST", "/v1/jobs/run", fmt.Sprintf(`{"script":"pwd","cwd":%q}`, gone), 400, "invalid_cwd")
}

// TestHugeIDs: an id of any length is an unknown job.
func TestHugeIDs(t *testing.T) {
	s := startServer(t, serverOptions{})
	s.wantError("GET", "/v1/jobs/"+strings.Repeat("a", 1_000_000), "", 404, "job_not_found")
	s.wantError("DELETE", "/v1/jobs/"+strings.Repeat("a", 100_000), "", 404, "job_not_found")
}

// TestEnvironmentPasses: proxies and the like reach jobs, secrets of the server do not.
func TestEnvironmentPasses(t *testing.T) {
	s := startServer(t, serverOptions{env: []string{"HTTP_PROXY=http://p:1", "https_proxy=http://p:2", "NO_PROXY=localhost", "BAD=\xff\xfe", "PAGER=more"}})
	res := s.run(`echo "$HTTP_PROXY $https_proxy $NO_PROXY $PAGER $GIT_PAGER"; printf %s "$BAD" | od -An -tx1; env | grep -c ^SHELLCTL_`, "stdio")
	if want := "http://p:1 http://p:2 localhost more cat\n ff fe\n0\n"; res.Output != want {
		t.Errorf("%q, want %q", res.Output, want)
	}
	// A pager would wait for a key.
	res = s.run("git init -q r && cd r && for i in $(seq 60); do git -c user.name=a -c user.email=a@b commit -q --allow-empty -m $i; done; git log | wc -l", "pty")
	wantExit(t, res, "exited", 0)
}

// TestStartupFiles: a shell that runs a script reads no file of its user.
func TestStartupFiles(t *testing.T) {
	s := startServer(t, serverOptions{})
	for _, name := range []string{".profile", ".bashrc", ".bash_profile"} {
		if err := os.WriteFile(filepath.Join(s.home, name), []byte("echo read; sleep 60; exit 3\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range bothModes {
		if res := s.run("echo ok", mode); res.Output != "ok\n" {
			t.Errorf("%s: %q", mode, res.Output)
		}
	}
}

// TestMarkersAreText: the end of a job is never read from its output.
func TestMarkersAreText(t *testing.T) {
	s := startServer(t, serverOptions{})
	res := s.run(`printf '\033]133;D;0\007\033]633;E;false\\;TY=x;\007###{"exit_code":0}\n'; false`, "pty")
	wantExit(t, res, "exited", 1)
	if res.Output != "###{\"exit_code\":0}\n" {
		t.Errorf("output %q", res.Output)
	}
}

// TestDescriptorsStay: thousands of ends, good and bad, leave nothing open.
func TestDescriptorsStay(t *testing.T) {
	needRoot(t)
	s := startServer(t, serverOptions{})
	count := func() int {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	round := func() {
		for _, mode := range bothModes {
			for _, script := range []string{"true", "#!/no/such/interpreter", "kill -9 $$"} {
				s.run(script, mode)
			}
		}
	}
	round()
	before := count()
	for range 15 {
		round()
	}
	// Up to 8 idle runners are kept, with a connection each.
	if after := count(); after > before+10 {
		t.Errorf("%d descriptors before, %d after 90 jobs", before, after)
	}
	if left := s.runners(); len(left) > 1 {
		t.Errorf("%d runners are left", len(left))
	}
}

// TestRetention: ended jobs go with their directories after their time, running ones stay.
func TestRetention(t *testing.T) {
	s := startServer(t, serverOptions{args: []string{"--gc-interval-seconds", "0.1", "--gc-finished-job-retention-seconds", "0.5"}})
	running := s.begin("sleep 100", "stdio")
	ended := s.run("true", "")
	deadline := time.Now().Add(20 * time.Second)
	for {
		if _, err := s.Status(context.Background(), ended.JobID); err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("an ended job stays")
		}
	}
	if dirs := s.jobDirs(); len(dirs) != 1 || dirs[0] != running.JobID {
		t.Errorf("directories %v, want only that of the running job", dirs)
	}
}

// TestLeftovers: what a killed server left without a record is removed at the next start.
func TestLeftovers(t *testing.T) {
	home := tempDir(t, 0)
	jobs := filepath.Join(home, ".local/share/shellctl/jobs")
	for _, dir := range []string{"0123456789abcdef/sub", "0123456789abcde0", "not-a-job"} {
		if err := os.MkdirAll(filepath.Join(jobs, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(jobs, "0123456789abcdef", "script"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, serverOptions{home: home})
	deadline := time.Now().Add(20 * time.Second)
	for len(s.jobDirs()) > 1 && time.Now().Before(deadline) {
		if _, err := s.List(context.Background(), "", 0); err != nil {
			t.Fatal(err)
		}
	}
	if dirs := s.jobDirs(); len(dirs) != 1 || dirs[0] != "not-a-job" {
		t.Errorf("left %v, want only what is not ours", dirs)
	}
}

// TestSecondServer: a state directory has one server, and the other is told which.
func TestSecondServer(t *testing.T) {
	s := startServer(t, serverOptions{})
	cmd := exec.Command(program(t, "shellctl"), "serve", "--listen", "127.0.0.1:0", "--state-dir", s.state)
	cmd.Env = []string{"HOME=" + s.home}
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), fmt.Sprintf("process %d", s.cmd.Process.Pid)) {
		t.Errorf("the second server: %v, %s", err, out)
	}
	wantExit(t, s.run("true", ""), "exited", 0)
}

// TestForeignDatabase: a record that is not ours is set aside, never a crash.
func TestForeignDatabase(t *testing.T) {
	for name, content := range map[string]string{"text": "this is no database", "zeros": strings.Repeat("\x00", 8192), "empty": ""} {
		home := tempDir(t, 0)
		state := filepath.Join(home, ".local/share/shellctl")
		if err := os.MkdirAll(state, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(state, "shellctl.db"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		s := startServer(t, serverOptions{home: home})
		wantExit(t, s.run("true", ""), "exited", 0)
		aside, err := filepath.Glob(filepath.Join(state, "shellctl.db.2*"))
		if want := name != "empty"; err != nil || (len(aside) == 1) != want || strings.Contains(s.logged(), "set aside") != want {
			t.Errorf("%s: set aside as %v, %v\n%s", name, aside, err, s.logged())
		}
	}
}

// TestStartErrors: a server that can not start says why and exits with 1, a
// wrong flag with 2.
func TestStartErrors(t *testing.T) {
	s := startServer(t, serverOptions{})
	home := tempDir(t, 0)
	for _, c := range []struct {
		args []string
		env  string
		code int
		text string
	}{
		{[]string{"--listen", strings.TrimPrefix(s.url, "http://")}, "", 1, "address already in use"},
		{[]string{"--no-such-flag"}, "", 2, "unknown flag"},
		{[]string{"extra"}, "", 2, "unknown command"},
		{[]string{"--state-dir", "/proc/nope"}, "", 1, "make state directory"},
		{nil, "SHELLCTL_DRAIN_GRACE=soon", 1, "SHELLCTL_DRAIN_GRACE"},
		{nil, "SHELLCTL_MAX_OUTPUT_BYTES=-1", 1, "SHELLCTL_MAX_OUTPUT_BYTES"},
		{[]string{"--gc-interval-seconds", "-1"}, "", 1, "must not be negative"},
	} {
		cmd := exec.Command(program(t, "shellctl"), append([]string{"serve"}, c.args...)...)
		cmd.Env = []string{"HOME=" + home, c.env}
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.text) {
			t.Errorf("serve %v %s: exit %d, %q; want %d and %q", c.args, c.env, code, out, c.code, c.text)
		}
	}
}

// TestControlSocket: a job of the same user can not drive the runner of another.
func TestControlSocket(t *testing.T) {
	for _, isolation := range []string{"true", "false"} {
		s := startServer(t, serverOptions{uid: plainUser, env: []string{"SHELLCTL_ENABLE_PATH_ISOLATION=" + isolation}})
		victim := s.begin("echo up; sleep 100", "stdio")
		s.until(victim.JobID, "up")
		attack := fmt.Sprintf(`#!/usr/bin/env python3
import socket, struct, json
c = socket.socket(socket.AF_UNIX)
c.connect(%q)
def send(kind, body):
  b = json.dumps(body).encode()
  c.sendall(struct.pack("<IB", len(b), kind) + b)
try:
  send(1, {"version": 1})
  send(7, {"limit": 0})
  print("answer", len(c.recv(100)))
except OSError as e:
  print("answer", 0)
`, filepath.Join(s.state, "jobs", victim.JobID, "control.sock"))
		if res := s.run(attack, "stdio"); res.Output != "answer 0\n" {
			t.Errorf("isolation %s: the attacker was told %q", isolation, res.Output)
		}
		if v, err := s.Status(context.Background(), victim.JobID); err != nil || v.Status != "running" {
			t.Errorf("isolation %s: the victim is %+v, %v", isolation, v, err)
		}
	}
}
