package applets_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shellctl/pkg/proctree"
)

// openShellDevices is what the policy of OpenShell leaves of /dev and /sys.
const openShellDevices = `mount -t tmpfs -o mode=0755 tmpfs /dev
mknod -m 666 /dev/null c 1 3
mknod -m 666 /dev/urandom c 1 9
mkdir /dev/pts
mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts
ln -s pts/ptmx /dev/ptmx
mount -t tmpfs -o mode=0 tmpfs /sys`

// openShellStart is what OpenShell's gateway feeds to /bin/sh -s.
const openShellStart = `set -eu
export HOME=/home/dify SHELLCTL_AUTH_TOKEN=` + testToken + ` SHELLCTL_ENABLE_PATH_ISOLATION=false
if curl -fsS -m 2 http://127.0.0.1:5004/healthz >/dev/null 2>&1; then exit 0; fi
setsid /usr/local/bin/shellctl serve --listen 127.0.0.1:5004 </dev/null >>/tmp/shellctl.log 2>&1 &
n=0
until curl -fsS -m 2 http://127.0.0.1:5004/healthz >/dev/null 2>&1; do
	n=$((n + 1))
	if [ $n -ge 10 ]; then exit 1; fi
	sleep 1
done
`

func TestOpenShell(t *testing.T) {
	t.Parallel()
	b := newBox(t, openShellDevices, withToken, "sleep", "infinity")
	start := func() string {
		cmd := b.command("/bin/sh", "-s")
		cmd.Stdin = strings.NewReader(openShellStart)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("start: %v\n%s", err, out)
		}
		return b.sh("pgrep -x shellctl")
	}
	first := start()
	testBothModes(t, b)
	if again := start(); again != first {
		t.Errorf("the second start changed the servers from %s to %s", first, again)
	}
	log, err := os.ReadFile(b.dir + "/shellctl.log")
	if err != nil || strings.Count(string(log), "msg=listening") != 1 {
		t.Errorf("log: %v\n%s\nwant one start", err, log)
	}
	// Without curl's question, it is the lock that keeps two from one state.
	out, err := b.command("shellctl", "serve", "--listen", "127.0.0.1:5005").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is held by process "+first) {
		t.Errorf("a second server on one state: %v %s", err, out)
	}
}

// TestE2B starts the server as the template does, and freezes and thaws it with
// all jobs, as a pause and resume of the machine do.
func TestE2B(t *testing.T) {
	t.Parallel()
	const start = "/usr/bin/env SHELLCTL_ENABLE_PATH_ISOLATION=true /usr/local/bin/shellctl serve --listen 0.0.0.0:5004"
	b := newBox(t, "", withToken, "/bin/sh", "-c", start+" & exec sleep infinity")
	b.ready("/bin/sh", "-c", "curl -fsS http://localhost:5004/healthz")
	testBothModes(t, b)
	id := b.sh(`shellctl run --detach 'while read line; do echo got $line; done'`)
	ended := strings.Fields(b.sh(`shellctl list --status exited`))[4] // after the heading
	wait := b.command("shellctl", "wait", id, "--timeout", "1")
	if err := wait.Start(); err != nil {
		t.Fatal(err)
	}
	b.freeze(2500 * time.Millisecond)
	thawed := time.Now()
	if err := wait.Wait(); err == nil || time.Since(thawed) > 10*time.Second {
		t.Errorf("the wait ended %v after the thaw with %v, want its overdue timeout", time.Since(thawed), err)
	}
	if got := b.sh("shellctl input " + id + " --enter hello --idle-flush-seconds 0.3"); !strings.Contains(got, "got hello") {
		t.Errorf("the job answers %q after the thaw", got)
	}
	b.sh("shellctl status " + ended) // not collected
	b.sh("shellctl terminate " + id + " --grace-seconds 1")
	testBothModes(t, b)
	checkDurations(t, b)
}

// freeze stops everything in the box, the first process too, for some time.
func (b *box) freeze(d time.Duration) {
	b.t.Helper()
	all := append(proctree.Descendants(nil, b.first()), b.first())
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		for _, pid := range all {
			if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
				b.t.Fatal(err)
			}
		}
		if sig == syscall.SIGSTOP {
			<-time.After(d) // the pause itself
		}
	}
}

// checkDurations: no record ends before it began, whatever clock moved.
func checkDurations(t *testing.T, b *box) {
	t.Helper()
	for _, line := range strings.Split(b.sh("shellctl list"), "\n")[1:] {
		f := strings.Fields(line)
		if len(f) != 4 || f[3] != "-" && f[3] < f[2] {
			t.Errorf("record %q: the end is before the beginning", line)
		}
	}
}

// TestReadOnlyRoot has nothing writable but HOME.
func TestReadOnlyRoot(t *testing.T) {
	t.Parallel()
	setup := "for m in / /tmp /usr/local/bin; do mount -o bind,remount,ro $m; done"
	b := newBox(t, setup, withToken, "shellctl", "serve", "--listen", "0.0.0.0:5004")
	b.healthy()
	testBothModes(t, b)
	got := b.sh(`shellctl run --mode stdio 'touch here && sort </dev/null && mktemp && ! touch /tmp/there 2>/dev/null'`)
	if !strings.HasPrefix(got, "/home/dify/") {
		t.Errorf("a job made its temporary file as %q, want it in HOME", got)
	}
}

// TestNoPasswd runs as a user that no file names.
func TestNoPasswd(t *testing.T) {
	t.Parallel()
	s := startServer(t, serverOptions{uid: plainUser})
	for _, mode := range []string{"pty", "stdio"} {
		res := s.run("id -u; cd ~ && pwd && whoami 2>&1 || true", mode)
		wantExit(t, res, "exited", 0)
		if want := fmt.Sprintf("%s\n%s\n", strconv.Itoa(plainUser), s.home); !strings.HasPrefix(res.Output, want) {
			t.Errorf("%s: got %q, want %q first", mode, res.Output, want)
		}
	}
}
