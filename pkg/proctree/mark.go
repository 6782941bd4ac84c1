package proctree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A mark is what tells the processes of one job from all others when the runner
// that was above them is gone. It is the job's number in a resource limit that
// Linux has kept but ignored since 2.4.25 (RLIMIT_LOCKS, see getrlimit(2)):
// every descendant inherits it over fork, exec, setsid and a change of its
// parent or environment, and none can raise it again.
const (
	rlimitLocks = 10
	markLine    = "Max file locks"
)

// Mark marks this process and all that it will start.
func Mark(n uint64) error {
	if err := unix.Prlimit(0, rlimitLocks, &unix.Rlimit{Cur: n, Max: n}, nil); err != nil {
		return fmt.Errorf("mark processes: %w", err)
	}
	return nil
}

// marked returns the living processes with a mark.
func marked(n uint64) ([]process, error) {
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var out []process
	for _, p := range procs {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		st, err := ReadStat(pid)
		if err == nil && st.State != 'Z' && st.State != 'X' && hasMark(pid, n) {
			out = append(out, process{pid, st.Start})
		}
	}
	return out, nil
}

func hasMark(pid int, n uint64) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
	if err != nil {
		return false // gone, or of another user
	}
	_, line, _ := bytes.Cut(b, []byte(markLine))
	f := bytes.Fields(line)
	return len(f) > 1 && string(f[1]) == strconv.FormatUint(n, 10) // the hard limit
}

// KillMarked kills all processes with a mark and returns when none is left, or
// when ctx ends. They need not be below this process.
func KillMarked(ctx context.Context, n uint64) error {
	for {
		found, err := marked(n)
		if err != nil || len(found) == 0 {
			return err
		}
		for _, p := range found { // first stop all, so that none outruns the others
			send(p.pid, p.start, unix.SIGSTOP)
		}
		var watches []*Process
		for _, p := range found {
			w, err := Watch(p.pid, p.start)
			if err != nil || w == nil {
				continue // gone
			}
			err = w.Signal(unix.SIGKILL)
			if err != nil {
				return errors.Join(err, w.Close())
			}
			watches = append(watches, w)
		}
		for _, w := range watches {
			if e := w.Wait(ctx); e != nil && err == nil {
				err = e
			}
		}
		if err != nil {
			return err
		}
	}
}
