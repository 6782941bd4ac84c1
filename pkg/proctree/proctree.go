// Package proctree knows the processes below one process: who they are, how to
// reap them, and how to kill them until none is left.
//
// A process that is a child subreaper becomes the parent of every orphan below
// it, also of those that made a session of their own or forked twice. So all
// that a job ever started is found by walking down from its runner, and the
// runner has no children left exactly when nothing of the job is alive.
package proctree

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Self is the running program, for starting another applet of it. It names the
// very file that runs, also after an upgrade has replaced it.
const Self = "/proc/self/exe"

// SetSubreaper makes this process the parent of the orphans below it.
func SetSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become child subreaper: %w", err)
	}
	return nil
}

// Descendants appends to pids all processes below pid, parents first.
// The walk is no snapshot: processes that fork meanwhile may be missing.
func Descendants(pids []int, pid int) []int {
	for _, c := range children(pid) {
		pids = append(pids, c)
		pids = Descendants(pids, c)
	}
	return pids
}

// children returns the children of all threads of pid. It prefers the kernel's
// lists; where the kernel keeps none, it looks through all processes.
func children(pid int) []int {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return nil // gone, or not ours to see
	}
	var out []int
	for _, t := range tasks {
		b, err := os.ReadFile(dir + "/" + t.Name() + "/children")
		if errors.Is(err, os.ErrNotExist) && t.Name() == strconv.Itoa(pid) && !hasChildrenFiles() {
			return childrenByScan(pid)
		}
		for _, f := range bytes.Fields(b) {
			if c, err := strconv.Atoi(string(f)); err == nil {
				out = append(out, c)
			}
		}
	}
	return out
}

// hasChildrenFiles tells a thread that ended from a kernel without CONFIG_PROC_CHILDREN.
func hasChildrenFiles() bool {
	_, err := os.Stat("/proc/thread-self/children")
	return err == nil
}

func childrenByScan(pid int) []int {
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return nil // no /proc, nothing to find
	}
	var out []int
	for _, p := range procs {
		c, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		if st, err := ReadStat(c); err == nil && st.Parent == pid {
			out = append(out, c)
		}
	}
	return out
}

// Stat is what /proc/PID/stat says about a process.
type Stat struct {
	State   byte // as in ps: R, S, D, T, Z, …
	Parent  int
	Group   int
	Session int
	Start   uint64 // clock ticks after boot; with the pid it identifies a process
}

// ReadStat reads the state of a process.
func ReadStat(pid int) (Stat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, fmt.Errorf("read process state: %w", err)
	}
	// The second field is the name in parentheses and may hold anything.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 {
		return Stat{}, fmt.Errorf("read process state: short line of process %d", pid)
	}
	num := func(i int) uint64 {
		n, err := strconv.ParseUint(string(f[i]), 10, 64)
		if err != nil {
			return 0 // negative numbers (tpgid) are not among the fields used
		}
		return n
	}
	return Stat{State: f[0][0], Parent: int(num(1)), Group: int(num(2)), Session: int(num(3)), Start: num(19)}, nil
}

// Alive reports whether the process pid that started at start still runs.
// A zombie does not.
func Alive(pid int, start uint64) bool {
	st, err := ReadStat(pid)
	return err == nil && st.Start == start && st.State != 'Z' && st.State != 'X'
}

// BootID identifies the running boot of the machine; "" where there is none.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "" // hidden by the sandbox: pid and start time have to do
	}
	return string(bytes.TrimSpace(b))
}

// send sends sig to the process pid that started at start. It goes through a
// pidfd and looks at the start time after opening it, so that a pid reused
// meanwhile is left alone.
func send(pid int, start uint64, sig unix.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // gone
	}
	defer unix.Close(fd) // a pidfd holds nothing that could fail to be written
	if st, err := ReadStat(pid); err != nil || st.Start != start {
		return
	}
	_ = unix.PidfdSendSignal(fd, sig, nil, 0) // ESRCH: it just ended
}

// Kill sends SIGKILL to one process, identified by pid and start time.
func Kill(pid int, start uint64) { send(pid, start, unix.SIGKILL) }
