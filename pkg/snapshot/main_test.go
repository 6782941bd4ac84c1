package snapshot

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// helperVar names the little program that the test binary becomes, for what
// has to run as another user.
const helperVar = "SNAPSHOT_TEST_HELPER"

// nobody is a user without rights.
const nobody = 65534

func TestMain(m *testing.M) {
	switch os.Getenv(helperVar) {
	case "":
		os.Exit(m.Run())
	case "save": // HOME to standard output, the counts to standard error
		stats, err := Save(context.Background(), os.Stdout, os.Getenv("HOME"), SaveOptions{})
		report(stats, err)
	case "restore": // standard input to HOME
		stats, err := Restore(context.Background(), os.Stdin, os.Getenv("HOME"), RestoreOptions{})
		report(stats, err)
	}
}

func report(stats any, err error) {
	fmt.Fprintf(os.Stderr, "%+v %s", stats, peakMemory())
	if err != nil {
		fmt.Fprintf(os.Stderr, ": %v", err)
		os.Exit(1)
	}
}

// peakMemory returns the line of the process's status with its largest RSS.
// That of getrusage counts the program which this one was started from too.
func peakMemory() string {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmHWM:") {
			return line
		}
	}
	return ""
}

// asNobody runs a helper as a user without rights, to whom the home belongs.
func asNobody(t *testing.T, helper, home string, in io.Reader, out io.Writer) string {
	t.Helper()
	cmd := exec.Command(testBinary(t))
	cmd.Env = []string{helperVar + "=" + helper, "HOME=" + home}
	cmd.Stdin, cmd.Stdout = in, out
	var log strings.Builder
	cmd.Stderr = &log
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s as another user: %v: %s", helper, err, &log)
	}
	return log.String()
}

// testBinary returns a copy of the running program that everybody may run.
func testBinary(t *testing.T) string {
	t.Helper()
	src, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	name := filepath.Join(openDir(t), "helper")
	dst, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(dst, src); err != nil {
		t.Fatal(err)
	}
	if err := dst.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

// openDir returns a temporary directory that everybody can reach.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "snapshot-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// giveAway makes a tree belong to the user without rights.
func giveAway(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	err := filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, nobody, nobody)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// noLeaks fails the test if it leaves descriptors or goroutines behind.
func noLeaks(t *testing.T) {
	t.Helper()
	fds, routines := countFDs(t), runtime.NumGoroutine()
	t.Cleanup(func() {
		if n := countFDs(t); n > fds {
			t.Errorf("%d descriptors at the end, %d at the start", n, fds)
		}
		// A goroutine that has done its work may still be on its last line.
		for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > routines; runtime.Gosched() {
			if time.Now().After(deadline) {
				buf := make([]byte, 64<<10)
				t.Errorf("goroutines left:\n%s", buf[:runtime.Stack(buf, true)])
				return
			}
		}
	})
}

func countFDs(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
