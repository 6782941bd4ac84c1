package applets

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

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
