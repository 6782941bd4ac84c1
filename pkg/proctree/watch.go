package proctree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a hold on one process that a reuse of its pid can not fool.
type Process struct {
	f   *os.File // pidfd, readable once the process has ended
	pid int
}

// Watch takes hold of the process pid that started at start. It returns nil
// without an error if that process is gone.
func Watch(pid int, start uint64) (*Process, error) {
	if pid <= 0 {
		return nil, nil
	}
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("watch process: %w", err)
	}
	p := &Process{f: os.NewFile(uintptr(fd), "pidfd"), pid: pid}
	if !Alive(pid, start) {
		return nil, p.Close()
	}
	return p, nil
}

// Signal sends a signal to the process; one that has ended is no error.
func (p *Process) Signal(sig unix.Signal) error {
	raw, err := p.f.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	if err := raw.Control(func(fd uintptr) { serr = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return err
	}
	if serr != nil && !errors.Is(serr, unix.ESRCH) {
		return fmt.Errorf("signal process: %w", serr)
	}
	return nil
}

// Wait waits until the process has ended, or ctx has, and lets go of it.
func (p *Process) Wait(ctx context.Context) error {
	defer p.Close() // nothing was written
	raw, err := p.f.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = raw.Read(func(fd uintptr) bool { return hasEnded(int(fd)) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// hasEnded asks a pidfd.
func hasEnded(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n == 1
}

// Close lets go of the process.
func (p *Process) Close() error { return p.f.Close() }
