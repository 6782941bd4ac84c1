package isolation

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Limits are the resource limits of a job, hard and soft; 0 leaves one as it is.
// The size of a core is always 0.
type Limits struct {
	NoFile uint64 `json:"nofile,omitempty"`
	NProc  uint64 `json:"nproc,omitempty"` // of the user, as the kernel counts
	FSize  uint64 `json:"fsize,omitempty"` // bytes
	AS     uint64 `json:"as,omitempty"`    // bytes
	CPU    uint64 `json:"cpu,omitempty"`   // seconds of a process
}

func (l Limits) none() bool { return l == Limits{} }

// forkExec starts a program under the limits. They belong to a process, so the
// runner can not take them on for the thread, and it would not survive most of
// them; and once the script runs it may already have forked. So the script is
// traced for the moment it takes to stop before its first instruction, limited,
// and let go.
func (l Limits) forkExec(argv0 string, argv []string, attr *syscall.ProcAttr) (int, error) {
	if l.none() {
		return syscall.ForkExec(argv0, argv, attr)
	}
	traced, sys := *attr, syscall.SysProcAttr{}
	if attr.Sys != nil {
		sys = *attr.Sys
	}
	sys.Ptrace = true
	traced.Sys = &sys
	pid, err := syscall.ForkExec(argv0, argv, &traced)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(l.apply(pid), release(pid)); err != nil {
		unix.Kill(pid, unix.SIGKILL)
		unix.Wait4(pid, nil, 0, nil)
		return 0, fmt.Errorf("set job limits: %w", err)
	}
	return pid, nil
}

// apply limits a process that has not run yet.
func (l Limits) apply(pid int) error {
	grace := uint64(1) // SIGXCPU first, which says why; SIGKILL a second later
	return errors.Join(
		limit(pid, unix.RLIMIT_NOFILE, l.NoFile, 0),
		limit(pid, unix.RLIMIT_NPROC, l.NProc, 0),
		limit(pid, unix.RLIMIT_FSIZE, l.FSize, 0),
		limit(pid, unix.RLIMIT_AS, l.AS, 0),
		limit(pid, unix.RLIMIT_CPU, l.CPU, grace),
	)
}

// limit never raises the hard limit: an unprivileged runner could not.
func limit(pid, resource int, soft, grace uint64) error {
	if soft == 0 {
		return nil
	}
	var old unix.Rlimit
	if err := unix.Prlimit(pid, resource, nil, &old); err != nil {
		return fmt.Errorf("read limit %d: %w", resource, err)
	}
	hard := min(soft+grace, old.Max)
	if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: min(soft, hard), Max: hard}, nil); err != nil {
		return fmt.Errorf("set limit %d: %w", resource, err)
	}
	return nil
}

// release lets a traced process go that is about to stop after its exec. A
// signal that comes first is passed on. If the process is killed meanwhile it is
// left for the caller to reap like any other.
func release(pid int) error {
	for {
		sig, stopped, err := waitStop(pid)
		switch {
		case err != nil:
			return fmt.Errorf("wait for exec: %w", err)
		case !stopped:
			return nil
		case sig == unix.SIGTRAP:
			return ignoreGone(unix.PtraceDetach(pid))
		}
		if err := ignoreGone(unix.PtraceCont(pid, int(sig))); err != nil {
			return err
		}
	}
}

// waitStop waits until a process stops or ends, and leaves its status in place.
func waitStop(pid int) (sig unix.Signal, stopped bool, err error) {
	const options = unix.WEXITED | unix.WSTOPPED | unix.WNOWAIT | unix.WALL
	var info unix.Siginfo
	for {
		err = unix.Waitid(unix.P_PID, pid, &info, options, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	const cldTrapped, cldStopped = 4, 5 // si_code, see sigaction(2)
	stopped = info.Code == cldTrapped || info.Code == cldStopped
	return unix.Signal(childStatus(&info)), stopped, err
}

// childStatus reads si_status, which follows si_pid and si_uid; the library has
// no name for it.
func childStatus(info *unix.Siginfo) int32 {
	const offset = 24
	return *(*int32)(unsafe.Add(unsafe.Pointer(info), offset))
}

// ignoreGone: a traced process can be killed at any time.
func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
