package applets_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// box is a container as far as a server can tell: pid, mount and network
// namespaces of its own, with the product in /usr/local/bin and a home for its
// user. So the tests start servers by the commands of the field, ports and all.
type box struct {
	t    testing.TB
	cmd  *exec.Cmd
	gone chan struct{} // closed when the first process has ended
	exit error         // of the first process; set before gone is closed
	dir  string        // /tmp of the box; home/ in it is HOME
	log  *bytes.Buffer // of the first process; to be read after gone
}

// boxUser is the user of the image. The machine under the test needs no such entry.
const boxUser = 1000

// boxSetup runs in new namespaces as root. What it executes in the end becomes
// the first process or, of a box that is only held open, its child.
const boxSetup = `set -e
mount --make-rprivate /
ip link set lo up
mount --bind "$BIN" /usr/local/bin
mount --bind "${ROOT:-/mnt}" /mnt
mount -t tmpfs -o mode=0755 tmpfs /home
mkdir -p /home/dify "$BOX/home"
chown 1000:1000 /home /home/dify "$BOX/home"
mount --bind "$BOX/home" /home/dify
mount --bind "$BOX" /tmp
mount -t proc proc /proc
ENTER="setpriv --reuid 1000 --regid 1000 --clear-groups"
eval "$SETUP"
cd /home/dify
echo >&3 # set up
exec 3>&-
exec $ENTER "$@"
`

// newBox starts a box with argv as its first process and waits until it is set
// up. setup are shell commands that run before, as root; they may change ENTER,
// the command that becomes the user of the image.
func newBox(t testing.TB, setup string, env []string, argv ...string) *box {
	t.Helper()
	needRoot(t)
	needTools(t, "unshare", "setpriv", "ip", "tini", "busybox")
	b := &box{t: t, dir: tempDir(t, boxUser), gone: make(chan struct{}), log: new(bytes.Buffer)}
	args := []string{"--pid", "--mount", "--net", "--uts", "--ipc", "--fork", "--kill-child", "sh", "-c", boxSetup, "sh"}
	b.cmd = exec.Command("unshare", append(args, argv...)...)
	b.cmd.Env = append([]string{
		"PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/home/dify", "SHELLCTL_BASE_URL=http://127.0.0.1:5004",
		"GORACE=atexit_sleep_ms=0", // the race detector's own delay is no part of a stop
		"BIN=" + filepath.Dir(program(t, "shellctl")), "BOX=" + b.dir, "SETUP=" + setup,
	}, env...)
	b.cmd.Stdout, b.cmd.Stderr = b.log, b.log
	isSet, tell, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer isSet.Close()
	b.cmd.ExtraFiles = []*os.File{tell}
	err = b.cmd.Start()
	tell.Close()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		b.exit = b.cmd.Wait()
		close(b.gone)
	}()
	t.Cleanup(b.close)
	// The end comes instead of the byte if the setup fails, as the test will see.
	_ = isSet.SetReadDeadline(time.Now().Add(30 * time.Second)) // a pipe has them
	if _, err := isSet.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the box is not set up")
	}
	return b
}

// close ends everything in the box.
func (b *box) close() {
	if pid := b.first(); pid > 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL) // ended meanwhile
	}
	b.wait(10 * time.Second)
	if b.t.Failed() {
		b.t.Logf("log of the first process:\n%s", b.log)
	}
}

// wait waits for the end of the first process and returns what it ended with.
func (b *box) wait(limit time.Duration) error {
	b.t.Helper()
	select {
	case <-b.gone:
		return b.exit
	case <-time.After(limit):
		_ = b.cmd.Process.Kill()
		b.t.Fatalf("the box did not end in %v", limit)
		return nil
	}
}

// first returns the pid of the first process of the box as seen from outside, 0 for none.
func (b *box) first() int {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", b.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(children)))
	return pid
}

// command is a command in the box, as the user of the image.
func (b *box) command(argv ...string) *exec.Cmd {
	b.t.Helper()
	pid := b.first()
	if pid == 0 {
		b.t.Fatal("the box has ended")
	}
	args := []string{"--target", strconv.Itoa(pid), "--pid", "--mount", "--net", "--uts", "--ipc", "--root", "--setuid", "1000", "--setgid", "1000", "--wd"}
	cmd := exec.Command("nsenter", append(args, argv...)...)
	cmd.Env = b.cmd.Env
	return cmd
}

// sh runs shell commands in the box and returns what they print.
func (b *box) sh(script string) string {
	b.t.Helper()
	out, err := b.command("/bin/sh", "-c", script).CombinedOutput()
	if err != nil {
		b.t.Fatalf("in the box: %s: %v\n%s", script, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// ready waits until the server in the box answers to a command, as orchestrators do.
func (b *box) ready(argv ...string) {
	b.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		select {
		case <-b.gone:
			b.t.Fatalf("the box ended with %v", b.exit)
		default:
		}
		if b.first() > 0 {
			out, err := b.command(argv...).CombinedOutput()
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				b.t.Fatalf("%q: %v\n%s", argv, err, out)
			}
		}
		<-time.After(20 * time.Millisecond) // between two polls
	}
}

// healthy waits until the server answers to the health check of the image.
func (b *box) healthy() {
	b.t.Helper()
	b.ready("/usr/local/bin/shellctl", "health")
}
