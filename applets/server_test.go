package applets_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shellctl/pkg/client"
)

const testToken = "test-token-123"

// testServer is a real server in a process of its own.
type testServer struct {
	*client.Client
	t     testing.TB
	url   string
	token string
	home  string
	state string
	opt   serverOptions
	cmd   *exec.Cmd
	gone  chan struct{} // closed when the process has ended
	exit  error         // of Wait; set before gone is closed

	mu  sync.Mutex
	log strings.Builder
}

// serverOptions change how a server is started.
type serverOptions struct {
	args    []string
	env     []string // on top of a small environment
	uid     uint32   // 0: of the test
	noToken bool
	group   bool     // in a process group of its own
	wrap    []string // a command that starts the server, before its own command line
	home    string   // empty: a new one
	program string   // empty: the test binary, which is the product too
}

// startServer starts a server and waits until it listens. At the end of the test
// its jobs are removed and it is stopped.
func startServer(t testing.TB, opt serverOptions) *testServer {
	t.Helper()
	if opt.uid != 0 {
		needRoot(t)
	}
	if opt.home == "" {
		opt.home = tempDir(t, opt.uid)
	}
	s := &testServer{t: t, home: opt.home, state: filepath.Join(opt.home, ".local/share/shellctl"), opt: opt}
	s.start()
	t.Cleanup(s.cleanup)
	return s
}

var listening = regexp.MustCompile(`msg=listening address=(\S+)`)

func (s *testServer) start() {
	s.t.Helper()
	path := s.opt.program
	if path == "" {
		path = program(s.t, "shellctl")
	}
	argv := append(append([]string{}, s.opt.wrap...), path, "serve", "--listen", "127.0.0.1:0")
	argv = append(argv, s.opt.args...)
	s.cmd = exec.Command(argv[0], argv[1:]...)
	// The race detector would hold up the end of each process for a second.
	s.cmd.Env = append([]string{"HOME=" + s.home, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "GORACE=atexit_sleep_ms=0"}, s.opt.env...)
	if !s.opt.noToken {
		s.token = testToken
		s.cmd.Env = append(s.cmd.Env, "SHELLCTL_AUTH_TOKEN="+testToken)
	}
	s.cmd.Dir = s.home
	if s.opt.group {
		s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	if s.opt.uid != 0 {
		s.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: s.opt.uid, Gid: s.opt.uid}}
	}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	address := make(chan string, 1)
	s.gone = make(chan struct{})
	go func() {
		s.readLog(stderr, address)
		s.exit = s.cmd.Wait()
		close(s.gone)
	}()
	select {
	case a := <-address:
		s.url = "http://" + a
		s.Client = client.New(s.url, s.token)
	case <-s.gone:
		s.t.Fatalf("the server did not start: %v\n%s", s.exit, s.logged())
	case <-time.After(30 * time.Second):
		s.t.Fatalf("the server does not listen\n%s", s.logged())
	}
}

// readLog keeps the log and sends the address of the server when it shows.
func (s *testServer) readLog(r io.Reader, address chan<- string) {
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		s.mu.Lock()
		s.log.WriteString(sc.Text() + "\n")
		s.mu.Unlock()
		if m := listening.FindStringSubmatch(sc.Text()); m != nil {
			address <- m[1]
		}
	}
}

func (s *testServer) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// stop ends the server by a signal and waits for it.
func (s *testServer) stop(sig syscall.Signal) {
	s.t.Helper()
	s.Close()
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Fatal(err)
	}
	select {
	case <-s.gone:
	case <-time.After(20 * time.Second):
		_ = s.cmd.Process.Kill()
		s.t.Fatalf("the server does not end\n%s", s.logged())
	}
}

func (s *testServer) cleanup() {
	select {
	case <-s.gone:
		return // the test ended it
	default:
	}
	grace := 0.0
	for {
		l, err := s.List(context.Background(), "running", 200)
		if err != nil || len(l.Jobs) == 0 {
			break
		}
		for _, j := range l.Jobs {
			if _, err := s.Delete(context.Background(), j.JobID, true, &grace); err != nil {
				s.t.Errorf("delete job %s: %v", j.JobID, err)
				return
			}
		}
	}
	s.stop(syscall.SIGTERM)
	if s.exit != nil {
		s.t.Errorf("the server ended with %v\n%s", s.exit, s.logged())
	}
	if s.t.Failed() {
		s.t.Logf("log of the server:\n%s", s.logged())
	}
}

// run runs a script and follows it to its end; the result has all of the output.
func (s *testServer) run(script, mode string) client.Result {
	s.t.Helper()
	return s.runWith(client.RunRequest{Script: script, Mode: mode})
}

func (s *testServer) runWith(req client.RunRequest) client.Result {
	s.t.Helper()
	if req.Timeout == 0 {
		req.Timeout = 120
	}
	res, err := s.Run(context.Background(), req)
	if err != nil {
		s.t.Fatalf("run %.80q: %v", req.Script, err)
	}
	return s.finish(res)
}

// finish reads the rest of a job to its end.
func (s *testServer) finish(res client.Result) client.Result {
	s.t.Helper()
	var all strings.Builder
	all.WriteString(res.Output)
	for !res.Done || res.Truncated {
		next, err := s.Wait(context.Background(), res.JobID, client.WaitRequest{Offset: res.Offset, Timeout: 120, OutputLimit: 512 << 10})
		if err != nil {
			s.t.Fatalf("wait: %v", err)
		}
		all.WriteString(next.Output)
		res = next
	}
	res.Output = all.String()
	return res
}

// begin starts a script and returns at once.
func (s *testServer) begin(script, mode string) client.Result {
	s.t.Helper()
	res, err := s.Run(context.Background(), client.RunRequest{Script: script, Mode: mode, WaitRequest: client.WaitRequest{Timeout: 0.001}})
	if err != nil {
		s.t.Fatalf("run %.80q: %v", script, err)
	}
	return res
}

// until waits until the output of a job holds a text.
func (s *testServer) until(id, text string) client.Result {
	s.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	var all strings.Builder
	offset := int64(0)
	for {
		res, err := s.Wait(context.Background(), id, client.WaitRequest{Offset: offset, Timeout: 5, IdleFlush: 0.001, OutputLimit: 512 << 10})
		if err != nil {
			s.t.Fatalf("wait: %v", err)
		}
		all.WriteString(res.Output)
		offset = res.Offset
		if strings.Contains(all.String(), text) {
			res.Output = all.String()
			return res
		}
		if res.Done || time.Now().After(deadline) {
			s.t.Fatalf("job %s never printed %q: %+v\n%s", id, text, res, all.String())
		}
	}
}

// post sends a raw request and returns status and body.
func (s *testServer) call(method, path, body string, header ...string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, string(b)
}

// wantError checks an error envelope.
func (s *testServer) wantError(method, path, body string, status int, code string) {
	s.t.Helper()
	got, text := s.call(method, path, body)
	var env struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal([]byte(text), &env); err != nil || env.Error.Message == "" {
		s.t.Errorf("%s %.80s %.80s = %d %.200q, want an error envelope", method, path, body, got, text)
		return
	}
	if got != status || env.Error.Code != code {
		s.t.Errorf("%s %.80s %.80s = %d %s (%s), want %d %s", method, path, body, got, env.Error.Code, env.Error.Message, status, code)
	}
}

// jobDirs lists what lies in the directory of jobs.
func (s *testServer) jobDirs() []string {
	s.t.Helper()
	return names(s.t, filepath.Join(s.state, "jobs"))
}

// names returns the sorted names in a directory.
func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// wantExit checks how a job ended.
func wantExit(t testing.TB, res client.Result, status string, code int) {
	t.Helper()
	if !res.Done || res.Status != status || res.ExitCode == nil || *res.ExitCode != code {
		got := "null"
		if res.ExitCode != nil {
			b, _ := json.Marshal(*res.ExitCode)
			got = string(b)
		}
		t.Errorf("job ended as %s with %s (done %v), want %s with %d; output %.300q", res.Status, got, res.Done, status, code, res.Output)
	}
}

var programs struct {
	once sync.Once
	dir  string
	err  error
}

// program returns the path of the product under a name. It lies where any user
// can execute it.
func program(t testing.TB, name string) string {
	t.Helper()
	programs.once.Do(func() { programs.dir, programs.err = installPrograms() })
	if programs.err != nil {
		t.Fatal(programs.err)
	}
	return filepath.Join(programs.dir, name)
}

// removePrograms is for the end of all tests.
func removePrograms() {
	if programs.dir == "" {
		return
	}
	if err := os.RemoveAll(programs.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func installPrograms() (string, error) {
	dir, err := os.MkdirTemp("", "shellctl-test-bin-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // for the plain user
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(self)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "shellctl"), b, 0o755); err != nil {
		return "", err
	}
	for _, name := range []string{"shellctl-runner", "shellctl-runner-exit", "shellctl-sanitize-pty", "dify-agent"} {
		if err := os.Symlink("shellctl", filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// needRoot leaves out a test that another user can not do: to become a plain
// user, to mount, to make namespaces. Where everything must be tested, nothing
// is left out.
func needRoot(t testing.TB) {
	t.Helper()
	switch {
	case os.Geteuid() == 0:
	case os.Getenv("CI") != "":
		t.Fatal("all tests must run here, and this one needs root")
	default:
		t.Skip("needs root")
	}
}

// needTools leaves out a test whose programs are missing, as needRoot does.
func needTools(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		if os.Getenv("CI") != "" {
			t.Fatalf("all tests must run here, and this one needs %s", name)
		}
		t.Skipf("needs %s", name)
	}
}

// plainUser is an unprivileged user without a name.
const plainUser = 54321

// tempDir makes a directory that a user owns, for the time of a test.
func tempDir(t testing.TB, uid uint32) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "shellctl-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if uid != 0 {
		if err := os.Chown(dir, int(uid), int(uid)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// asError is errors.As for one pointer type.
func asError[T error](err error, target *T) bool { return errors.As(err, target) }
