package isolation

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// playNeighbour is a server: it takes its secret, hides if told to, and then
// does nothing until its input ends.
func playNeighbour() int {
	secret := "kept"
	if os.Getenv("TAKE") != "" {
		var err error
		if secret, err = TakeSecret("SECRET"); err != nil {
			return 1
		}
	}
	if os.Getenv("HIDE") != "" {
		if err := HideProcess(); err != nil {
			return 1
		}
	}
	fmt.Println(secret, os.Getenv("SECRET"))
	io.Copy(io.Discard, os.Stdin)
	return 0
}

// neighbour starts one and returns its pid and what it said.
func neighbour(t *testing.T, env ...string) (pid int, said string) {
	t.Helper()
	cmd := exec.Command(selfFor(t))
	cmd.Env = append(os.Environ(), roleVar+"=neighbour", "SECRET=s3cret", "GORACE=atexit_sleep_ms=0")
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	buf := make([]byte, 64)
	n, err := out.Read(buf)
	must(t, err)
	return cmd.Process.Pid, strings.TrimSpace(string(buf[:n]))
}

// The secret of a server, looked at by root, then by a job of its user without
// isolation.
func TestSecrets(t *testing.T) {
	s := newSite(t, nobody)
	for _, tt := range []struct {
		env       string
		said      string
		root, job bool // can they find the secret
	}{
		{"NOTHING=1", "kept s3cret", true, true},
		{"TAKE=1", "s3cret", false, false},
		{"HIDE=1", "kept s3cret", true, false},
	} {
		pid, said := neighbour(t, tt.env)
		if said != tt.said {
			t.Errorf("%s: said %q, want %q", tt.env, said, tt.said)
		}
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		must(t, err)
		if got := strings.Contains(string(environ), "s3cret"); got != tt.root {
			t.Errorf("%s: root finds the secret = %v", tt.env, got)
		}
		script := fmt.Sprintf("grep -c s3cret /proc/%d/environ", pid)
		if got := shell(t, nobody, s, Policy{}, false, script) == "1"; got != tt.job {
			t.Errorf("%s: job finds the secret = %v", tt.env, got)
		}
	}
}

// Only the thread is confined, and the job for good.
func TestRunnerStaysFree(t *testing.T) {
	for _, uid := range []uint32{nobody, 0} {
		s := newSite(t, int(uid))
		r := play(t, uid, plan{
			Policy: defaults(t), Job: s.job(), Argv: []string{s.Script}, Env: jobEnv(s),
		})
		if !r.Free || strings.TrimSpace(r.Out) != "script ran" || r.Status != 0 {
			t.Errorf("uid %d: %+v", uid, r)
		}
		got := shell(t, uid, s, defaults(t), false, "grep -E 'NoNewPrivs|Seccomp:' /proc/self/status")
		if strings.Join(strings.Fields(got), " ") != "NoNewPrivs: 1 Seccomp: 2" {
			t.Errorf("uid %d: status of the job = %q", uid, got)
		}
	}
}

func TestOnThread(t *testing.T) {
	tids := map[int]bool{}
	for range 50 {
		OnThread(func() {
			if onMainThread() {
				t.Error("on the main thread")
			}
			tids[unix.Gettid()] = true
			must(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		})
	}
	nnp, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if nnp != 0 || err != nil {
		t.Errorf("no_new_privs outside = %d, %v", nnp, err)
	}
	if len(tids) != 50 {
		t.Errorf("%d threads for 50 calls", len(tids))
	}
}

// Programs are started from a restricted thread or not at all.
func TestForkExecNeedsRestrict(t *testing.T) {
	var err error
	OnThread(func() {
		cell, enterErr := Policy{}.Enter()
		must(t, enterErr)
		_, err = cell.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{})
	})
	if err == nil {
		t.Error("started a program from a thread that is not restricted")
	}
}

// playArguments is a server that was given a secret as an argument.
func playArguments() int {
	if err := HideArguments("s3cret", ""); err != nil {
		fmt.Println(err)
		return 1
	}
	b, err := os.ReadFile("/proc/self/cmdline")
	fmt.Printf("%q %q", b, os.Getenv("SECRET"))
	return boolToCode(err == nil)
}

func TestHideArguments(t *testing.T) {
	cmd := exec.Command(selfFor(t), "--token", "s3cret", "--token=s3cret", "s3cret2", "")
	cmd.Args[0] = "self"
	cmd.Env = []string{roleVar + "=arguments", "SECRET=s3cret"}
	out, err := cmd.Output()
	must(t, err)
	if want := `"self\x00--token\x00******\x00--token=******\x00s3cret2\x00\x00" "s3cret"`; string(out) != want {
		t.Errorf("command line = %s, want %s", out, want)
	}
}
