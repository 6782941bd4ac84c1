// Package runner is the life of one job inside its runner process: terminal or
// pipes, log, process tree, exit.
//
// A runner has a session of its own and outlives the server. It takes its job
// from the connection it was born with, starts the script, and owns every
// descriptor and process of the job until the end is recorded.
package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"unsafe"

	"golang.org/x/sys/unix"

	"shellctl/pkg/control"
	"shellctl/pkg/isolation"
	"shellctl/pkg/job"
	"shellctl/pkg/proctree"
)

// Run is the whole runner: it returns when the job is over, its end is recorded
// and nothing of it writes any more.
func Run() error {
	conn, err := control.Inherited()
	if err != nil {
		return err
	}
	if err := settle(); err != nil {
		return errors.Join(err, conn.Close())
	}
	start, err := awaitStart(conn)
	if errors.Is(err, io.EOF) {
		return conn.Close() // the server went before it had a job for us
	}
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	return runJob(conn, start)
}

// settle prepares the process before anything of a job is known.
func settle() error {
	if err := proctree.SetSubreaper(); err != nil {
		return err
	}
	if err := errors.Join(isolation.CloseOnExec(), isolation.HideProcess()); err != nil {
		return err
	}
	// Signals with a handler start at their default in the script; those that the
	// server inherited as ignored would stay ignored in it. A handler that does
	// nothing is also what the runner wants: the hang-up of its own terminal and
	// a signal to the server's group must not end it.
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGPIPE, unix.SIGALRM,
		unix.SIGUSR1, unix.SIGUSR2, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCONT, unix.SIGWINCH)
	go func() {
		for range c { // for the life of the process
		}
	}()
	return defaultIgnored()
}

// sigaction is struct sigaction of the kernel (rt_sigaction(2)) where no
// handler is set, the same on every 64-bit machine.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

const sigIgn = 1

// defaultIgnored gives the signals that are still ignored, of which the Go
// runtime knows nothing, their default action.
func defaultIgnored() error {
	for sig := uintptr(1); sig <= 64; sig++ {
		var act, none sigaction
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&act)), unsafe.Sizeof(act.mask), 0, 0)
		if errno != 0 || act.handler != sigIgn {
			continue
		}
		_, _, errno = unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&none)), 0, unsafe.Sizeof(act.mask), 0, 0)
		if errno != 0 {
			return fmt.Errorf("reset signal %d: %w", sig, errno)
		}
	}
	return nil
}

// awaitStart waits for the job; io.EOF means that there will be none.
func awaitStart(conn *control.Conn) (control.Start, error) {
	for {
		m, err := conn.Receive()
		if err != nil {
			return control.Start{}, err
		}
		if m.Kind == control.KindStart && m.Start != nil {
			return *m.Start, nil
		}
	}
}

// runJob runs the job and reports its end.
func runJob(conn *control.Conn, start control.Start) error {
	// Without a mark a job is only harder to clear up after its runner was killed.
	_ = proctree.Mark(start.ID.Number())
	reaper := proctree.NewReaper()
	defer reaper.Close()
	j := newJob(start, reaper)
	l, err := newLink(conn, j)
	if err != nil {
		exit := job.Exit{Status: job.StatusFailed, Reason: job.ReasonStartFailed, Message: err.Error(), EndedAt: now()}
		return errors.Join(err, conn.Send(control.Message{Kind: control.KindExited, Exit: &exit}), conn.Close())
	}
	exit := j.run(l)
	err = errors.Join(writeExit(start.Dir, exit), l.report(exit, start))
	j.release()
	j.discard()
	return err
}
