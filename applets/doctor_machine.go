package applets

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"shellctl/pkg/proctree"
)

func checkShell() finding {
	const advice = "install a POSIX shell as sh and put it on PATH"
	path, err := exec.LookPath("sh")
	if err != nil {
		return broken("shell", err.Error(), advice)
	}
	var exit *exec.ExitError
	if err := exec.Command(path, "-c", "exit 7").Run(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		return broken("shell", fmt.Sprintf("%s does not run: %v", path, err), advice)
	}
	return ok("shell", path)
}

func checkTerminal() finding {
	name, err := tryTerminal()
	if err != nil {
		return broken("terminal", err.Error(), "mount a devpts on /dev/pts and make /dev/ptmx accessible: jobs in pty mode would fail")
	}
	return ok("terminal", name)
}

// tryTerminal opens one and sends a line through it.
func tryTerminal() (string, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return "", err
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		return "", fmt.Errorf("unlock terminal: %w", err)
	}
	name := "/dev/pts/" + strconv.Itoa(n)
	slave, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return "", err
	}
	defer slave.Close()
	if _, err := slave.WriteString("x\n"); err != nil {
		return "", err
	}
	buf := make([]byte, 8)
	if got, err := master.Read(buf); err != nil || !bytes.HasPrefix(buf[:got], []byte("x")) {
		return "", fmt.Errorf("read %s: %q, %w", name, buf[:got], err)
	}
	return name, nil
}

func checkSubreaper() finding {
	if err := trySubreaper(); err != nil {
		return broken("subreaper", err.Error(), "use a kernel of 3.4 or later with /proc mounted: what a job leaves behind could not be ended")
	}
	return ok("subreaper", "")
}

// trySubreaper has a grandchild lose its parent and looks who adopts it.
func trySubreaper() error {
	if err := proctree.SetSubreaper(); err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	defer r.Close()
	defer w.Close()
	// The grandchild lives until the pipe is closed; the shell does not.
	cmd := exec.Command("sh", "-c", "cat <&3 >/dev/null 2>&1 & echo $!")
	cmd.ExtraFiles = []*os.File{r}
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("start orphan: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return fmt.Errorf("start orphan: %w", err)
	}
	st, err := proctree.ReadStat(pid)
	_ = unix.Kill(pid, unix.SIGKILL) // ESRCH: gone
	_, _ = unix.Wait4(pid, nil, 0, nil)
	if err != nil {
		return fmt.Errorf("look at orphan: %w", err)
	}
	if st.Parent != os.Getpid() {
		return fmt.Errorf("an orphan was adopted by process %d", st.Parent)
	}
	return nil
}

// oldest is before any release of this program: no clock is right that shows less.
var oldest = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

func checkClock() finding {
	start := time.Now()
	if start.Before(oldest) {
		return warned("clock", "it is "+start.UTC().Format(time.RFC3339), "set the clock: records carry its time")
	}
	last := start
	for range 10000 {
		now := time.Now()
		if now.Before(last) {
			return broken("clock", "the monotonic clock went back", "use another clock source")
		}
		last = now
	}
	<-time.After(20 * time.Millisecond)
	end := time.Now()
	passed, wall := end.Sub(start), end.Round(0).Sub(start.Round(0))
	if passed < 20*time.Millisecond {
		return broken("clock", fmt.Sprintf("a timer of 20ms took %v", passed), "use another clock source: deadlines would not hold")
	}
	if d := (wall - passed).Abs(); d > 10*time.Millisecond {
		return warned("clock", fmt.Sprintf("the time jumped by %v while this looked", wall-passed), "let the clock be slewed: records carry its time")
	}
	return ok("clock", start.UTC().Format(time.RFC3339))
}

func checkCgroup() finding {
	dir, err := ownCgroup()
	if err == nil {
		sub := filepath.Join(dir, fmt.Sprintf("shellctl-doctor-%d", os.Getpid()))
		if err = os.Mkdir(sub, 0o755); err == nil {
			err = os.Remove(sub)
		}
	}
	if err != nil {
		return warned("cgroup", err.Error(), "nothing depends on it; limit jobs by SHELLCTL_RLIMIT_*, all together by the container")
	}
	return ok("cgroup", "groups can be made below "+dir)
}

// ownCgroup returns the directory of this process in the cgroup v2 hierarchy.
func ownCgroup() (string, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		path, isV2 := strings.CutPrefix(strings.TrimSpace(line), "0::")
		for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
			var fs unix.Statfs_t
			if isV2 && unix.Statfs(mount, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
				return filepath.Join(mount, path), nil
			}
		}
	}
	return "", errors.New("no cgroup v2 is mounted")
}

// Less free space than this can not take a job's output.
const (
	leastSpace  = 64 << 20
	littleSpace = 1 << 30
	fewFiles    = 10000
)

func checkState(dir string) []finding {
	at := dir // the directory itself, or where it would be made
	for {
		st, err := os.Stat(at)
		if err == nil && st.IsDir() {
			break
		}
		if err == nil || !errors.Is(err, os.ErrNotExist) || at == filepath.Dir(at) {
			return []finding{broken("state", fmt.Sprintf("%s: %v", at, errors.Join(err, unix.ENOTDIR)), "give another --state-dir")}
		}
		at = filepath.Dir(at)
	}
	found := []finding{checkSpace(at)}
	if err := tryState(at); err != nil {
		return append(found, broken("state", err.Error(), "give the server's user a --state-dir that it owns, on a local file system"))
	}
	if inHome(dir) {
		return append(found, warned("state", dir+" lies in HOME: a job with this HOME can change the record and other jobs' files",
			"give a --state-dir outside of it"))
	}
	return append(found, ok("state", dir))
}

// tryState does in a directory what the record and the runners do: write
// through, lock, listen on a socket, rename.
func tryState(at string) error {
	dir, err := os.MkdirTemp(at, ".shellctl-doctor-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	f, err := os.OpenFile(filepath.Join(dir, "file"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString("x"); err != nil {
		return err
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := errors.Join(f.Sync(), unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock)); err != nil {
		return fmt.Errorf("sync and lock in %s: %w", at, err)
	}
	// By a relative name, since a path may be too long for a socket.
	if err := os.Chdir(dir); err != nil {
		return err
	}
	l, err := net.Listen("unix", "socket")
	if err != nil {
		return err
	}
	return errors.Join(l.Close(), os.Rename("file", "renamed"))
}

func checkSpace(at string) finding {
	var fs unix.Statfs_t
	if err := unix.Statfs(at, &fs); err != nil {
		return warned("space", err.Error(), "")
	}
	free := fs.Bavail * uint64(fs.Bsize)
	detail := fmt.Sprintf("%d MiB and %d files free", free>>20, fs.Ffree)
	const advice = "free space, or give another --state-dir; SHELLCTL_MAX_OUTPUT_BYTES bounds the output of a job"
	switch {
	case free < leastSpace:
		return broken("space", detail, advice)
	case free < littleSpace || fs.Files > 0 && fs.Ffree < fewFiles:
		return warned("space", detail, advice)
	}
	return ok("space", detail)
}
