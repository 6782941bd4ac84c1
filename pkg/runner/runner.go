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
	"os"
	"os/signal"
	"unsafe"

	"golang.org/x/sys/unix"

	"shellctl/pkg/control"
	"shellctl/pkg/isolation"
	"shellctl/pkg/job"
	"shellctl/pkg/proctree"
)

// Run is the whole runner: it returns when its last job is over, the end of it is
// recorded and nothing of it writes any more.
func Run() error {
	conn, err := control.Inherited()
	if err != nil {
		return err
	}
	if err := settle(); err != nil {
		return errors.Join(err, conn.Close())
	}
	reaper := proctree.NewReaper()
	defer reaper.Close()
	l := newLink(conn)
	defer l.close()
	for {
		start, ok := l.awaitStart()
		if !ok {
			return nil // the server went, or has no job for us
		}
		clean, err := runJob(l, start, reaper)
		if err != nil || !clean {
			return err
		}
		l.send(control.Message{Kind: control.KindIdle, Job: start.ID})
	}
}

// settle prepares the process before anything of a job is known.
func settle() error {
	if err := proctree.SetSubreaper(); err != nil {
		return err
	}
	// For ps, which would show the link that we were started by. Before the next
	// step, which closes the file; without /proc there is no ps either.
	_ = os.WriteFile("/proc/self/comm", []byte("shellctl-runner"), 0)
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

// runJob runs a job and reports its end. It reports true if the job has left
// nothing behind, in this process or below it, so that another can follow.
func runJob(l *link, start control.Start, reaper *proctree.Reaper) (bool, error) {
	// Without a mark a job is only harder to clear up after its runner was killed.
	_ = proctree.Mark(start.Mark)
	j := newJob(start, reaper)
	if err := l.take(j); err != nil {
		return false, errors.Join(err, l.report(job.StartFailed(err), start))
	}
	exit := j.run(l)
	err := errors.Join(writeExit(start.Dir, exit), l.report(exit, start))
	j.release()
	reaper.Look()
	_, alone := reaper.Changed()
	clean := alone && j.reusable()
	if !clean {
		l.close()
	}
	j.discard()
	return clean, err
}
