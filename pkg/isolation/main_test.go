package isolation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A restriction is irreversible, so the test binary plays two more parts: the
// runner that starts a confined program, and that program.
const roleVar = "ISOLATION_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "runner":
		os.Exit(playRunner())
	case "job":
		os.Exit(playJob())
	case "arguments":
		os.Exit(playArguments())
	case "neighbour":
		os.Exit(playNeighbour())
	}
	code := m.Run()
	os.Remove(selfPath())
	os.Exit(code)
}

// nobody is who the tests of unprivileged jobs run as.
const nobody = 65534

// plan is what the runner is asked to do.
type plan struct {
	Policy Policy
	Job    Job
	Argv   []string
	Env    []string
	PTY    bool
}

// result is what came of it. Refused is the error of Enter or Restrict.
type result struct {
	Out     string
	Refused string
	Status  syscall.WaitStatus
	Free    bool // the runner itself could still read and write the state
}

// play starts a runner as the given user and returns what its job printed.
func play(t testing.TB, uid uint32, p plan) result {
	t.Helper()
	in, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(selfFor(t))
	cmd.Env = append(os.Environ(), roleVar+"=runner", "GORACE=atexit_sleep_ms=0")
	cmd.Stdin = bytes.NewReader(in)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("runner: %v\n%s%s", err, out.String(), stderr.String())
	}
	var r result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("runner said %q: %v", out.String(), err)
	}
	return r
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// playRunner is the runner: it does what the real one does, in that order.
func playRunner() int {
	var p plan
	if err := json.NewDecoder(os.Stdin).Decode(&p); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := HideProcess(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r, err := confine(p)
	if err != nil {
		r.Refused = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return 1
	}
	return 0
}

func confine(p plan) (r result, err error) {
	var cell *Cell
	var pid int
	var out *os.File
	OnThread(func() { cell, out, pid, err = startJob(p) })
	if cell != nil {
		defer cell.Close()
	}
	if err != nil {
		return r, err
	}
	b, readErr := io.ReadAll(out)
	if readErr != nil && !errors.Is(readErr, unix.EIO) { // how a terminal ends
		return r, readErr
	}
	r.Out = string(b)
	f, openErr := os.OpenFile(filepath.Join(p.Job.State, "shellctl.db"), os.O_RDWR, 0)
	r.Free = openErr == nil && f.Close() == nil
	_, err = syscall.Wait4(pid, &r.Status, 0, nil)
	return r, err
}

// startJob returns where the job's output can be read.
func startJob(p plan) (cell *Cell, out *os.File, pid int, err error) {
	if cell, err = p.Policy.Enter(); err != nil {
		return cell, nil, 0, err
	}
	in, out, tty, err := streams(p.PTY)
	if err != nil {
		return cell, nil, 0, err
	}
	defer tty.Close()
	if p.PTY {
		p.Job.TTY = tty.Name()
		in = tty
	}
	defer in.Close()
	if err := cell.Restrict(p.Job); err != nil {
		return cell, nil, 0, err
	}
	pid, err = cell.ForkExec(p.Argv[0], p.Argv, &syscall.ProcAttr{
		Dir:   p.Job.Cwd,
		Env:   p.Env,
		Files: []uintptr{in.Fd(), tty.Fd(), tty.Fd()},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Foreground: p.PTY, Ctty: int(tty.Fd())},
	})
	return cell, out, pid, err
}

// streams opens a controlling terminal, or a pipe.
func streams(pty bool) (in, out, tty *os.File, err error) {
	if !pty {
		if in, err = os.Open(os.DevNull); err != nil {
			return nil, nil, nil, err
		}
		out, tty, err = os.Pipe()
		return in, out, tty, err
	}
	out, tty, err = openTerminal()
	if err == nil {
		err = unix.IoctlSetInt(int(tty.Fd()), unix.TIOCSCTTY, 0)
	}
	return nil, out, tty, err
}

// openTerminal is openpty(3), by path as C libraries and creack/pty do it.
func openTerminal() (ptmx, tty *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	ptmx = os.NewFile(uintptr(fd), "/dev/ptmx")
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		return nil, nil, err
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	return ptmx, tty, err
}

// site is a place with two workspaces and a state directory, all of one user.
type site struct {
	Root                   string
	Home, Ws, Other, State string
	Self, Script           string // this program, and a job's script
	Outside                int    // pid of a process outside
	Abstract, Socket       string
	Open, Shut             int // TCP ports: one that is allowed, one that is not
}

// newSite builds one that the given user owns.
func newSite(t testing.TB, uid int) site {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	s := site{Root: dir, Outside: os.Getpid()}
	s.Home, s.Ws = filepath.Join(dir, "home"), filepath.Join(dir, "ws")
	s.Other, s.State = filepath.Join(dir, "other"), filepath.Join(dir, "state")
	s.Script = filepath.Join(s.State, "jobs/1/script")
	s.Self = filepath.Join(s.Home, "self")
	for _, d := range []string{s.Home, s.Ws, s.Other, filepath.Dir(s.Script)} {
		must(t, os.MkdirAll(d, 0o755))
	}
	must(t, os.Link(selfFor(t), s.Self))
	files := map[string]string{
		s.Script:                                 "#!/bin/sh\necho script ran\n",
		filepath.Join(s.State, "jobs/1/out.log"): "log",
		filepath.Join(s.State, "shellctl.db"):    "db",
		filepath.Join(s.Other, "secret"):         "secret",
		filepath.Join(s.Other, "program"):        "#!/bin/sh\n",
		filepath.Join(s.Other, "victim"):         "",
		filepath.Join(s.Home, "file"):            "home",
	}
	for path, text := range files {
		must(t, os.WriteFile(path, []byte(text), 0o700))
	}
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || path == s.Self {
			return err
		}
		return os.Lchown(path, uid, uid)
	}))
	return s
}

func (s site) job() Job { return Job{Home: s.Home, Cwd: s.Ws, Script: s.Script, State: s.State} }

// selfFor returns this binary where every user can reach it, on the file system
// of temporary directories.
func selfFor(t testing.TB) string {
	t.Helper()
	path := selfPath()
	if exists(path) {
		return path
	}
	b, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	must(t, os.WriteFile(path, b, 0o755))
	return path
}

func selfPath() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("isolation-test-%d", os.Getpid()))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func jobEnv(s site) []string {
	return []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + s.Home, "TMPDIR=" + s.Ws,
		"GORACE=atexit_sleep_ms=0",
	}
}

// defaults is the policy of an empty environment.
func defaults(t testing.TB) Policy {
	t.Helper()
	p, notes, err := FromEnviron(func(string) (string, bool) { return "", false })
	if err != nil || len(notes) > 0 {
		t.Fatalf("FromEnviron() = %v, %v", notes, err)
	}
	return p
}
