package applets_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"shellctl/pkg/proctree"
)

// stopLimit is how long the end of a container may take.
const stopLimit = 5 * time.Second

var withToken = []string{"SHELLCTL_AUTH_TOKEN=" + testToken}

// TestFirstProcess starts the server by the command of each image, on the root
// of this machine or that of a runtime image.
func TestFirstProcess(t *testing.T) {
	setup, env := "", withToken
	if root := os.Getenv(envTestRoot); root != "" {
		setup, env = containerSetup, append([]string{"ROOT=" + root}, env...)
	}
	for name, argv := range map[string][]string{
		"runtime": {"/usr/bin/tini", "-g", "--", "shellctl", "serve", "--listen", "0.0.0.0:5004"},
		"scratch": {"shellctl", "serve", "--listen", "0.0.0.0:5004"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, setup, env, argv...)
			b.healthy()
			testBothModes(t, b)
			testOrphans(t, b)
			testStop(t, b)
		})
	}
}

func testBothModes(t *testing.T, b *box) {
	t.Helper()
	for _, mode := range []string{"pty", "stdio"} {
		got := b.sh("shellctl run --mode " + mode + ` 'echo $HOME; env | grep ^SHELLCTL_ || true'`)
		if want := "/home/dify"; strings.TrimSpace(got) != want {
			t.Errorf("a %s job printed %q, want %q", mode, got, want)
		}
	}
}

// orphans leaves 200 processes that no parent waits for, none of the job's group.
const orphans = `i=0; while [ $i -lt 200 ]; do (setsid sh -c 'read x <~/fifo' &); i=$((i+1)); done`

// testOrphans lets 200 double-forked processes outlive their job and end all at
// once. The first process, or the server, is the one to reap them.
func testOrphans(t *testing.T, b *box) {
	t.Helper()
	b.sh("mkfifo ~/fifo && shellctl run --mode stdio " + quoteSh(orphans))
	if n := len(b.orphans()); n != 200 {
		t.Errorf("%d orphans, want 200", n)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		// Opening the other side lets all that wait for it go on; they read the end.
		f, err := os.OpenFile(filepath.Join(b.dir, "home/fifo"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		left := b.orphans()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d orphans or zombies are left:\n%s", len(left), strings.Join(left[:min(len(left), 10)], "\n"))
		}
	}
}

// orphans describes the processes in the box that wait for the FIFO or for a parent.
func (b *box) orphans() []string {
	var out []string
	for _, pid := range proctree.Descendants(nil, b.first()) {
		st, err := proctree.ReadStat(pid)
		if err != nil {
			continue // gone meanwhile
		}
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && (st.State == 'Z' || strings.Contains(string(args), "read x")) {
			out = append(out, fmt.Sprintf("%d %c %q", pid, st.State, args))
		}
	}
	return out
}

// testStop stops a container with three jobs and looks at their records.
func testStop(t *testing.T, b *box) {
	t.Helper()
	b.sh(`shellctl run --detach 'trap "echo bye; exit 7" TERM; echo up; while :; do sleep 0.05; done'
		shellctl run --detach --mode stdio 'exec sleep 1000'
		shellctl run --detach --mode stdio 'trap "" INT TERM HUP; while :; do sleep 0.05; done'`)
	began := time.Now()
	if err := syscall.Kill(b.first(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := b.wait(stopLimit); err != nil {
		t.Errorf("the first process ended with %v, want 0", err)
	}
	t.Logf("ended after %v", time.Since(began).Round(time.Millisecond))
	checkStopped(t, b.dir)
}

// checkStopped looks at the records that a container has left in its home.
func checkStopped(t *testing.T, dir string) {
	t.Helper()
	s := startServer(t, serverOptions{home: filepath.Join(dir, "home"), uid: boxUser})
	l, err := s.List(context.Background(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range l.Jobs {
		if j.Status != "terminated" && j.Status != "exited" {
			t.Errorf("job %s is %s, want its end recorded", j.JobID, j.Status)
		}
	}
}

// quoteSh quotes a word for a shell.
func quoteSh(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// TestNoToken: the health check of the image works when only the server has the token.
func TestNoToken(t *testing.T) {
	t.Parallel()
	b := newBox(t, "", nil, "/usr/bin/env", "SHELLCTL_AUTH_TOKEN=secret", "shellctl", "serve", "--listen", "0.0.0.0:5004")
	b.healthy()
	if out, err := b.command("shellctl", "list").CombinedOutput(); err == nil || !strings.Contains(string(out), "unauthorized") {
		t.Errorf("list without a token: %v %s", err, out)
	}
	var exit *exec.ExitError
	out, err := b.command("shellctl", "health", "--base-url", "http://127.0.0.1:5005").CombinedOutput()
	if !asError(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("health of nothing: %v %s, want exit 1", err, out)
	}
}
