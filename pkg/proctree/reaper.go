package proctree

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Reaper reaps every child of this process, its own and adopted ones, and tells
// those who started one how it ended. There is one Reaper in a process and
// nothing else waits for children, so no status is taken twice or by the wrong one.
type Reaper struct {
	sig  chan os.Signal
	done chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex
	exited map[int]func(unix.WaitStatus) // by pid
	events chan struct{}                 // closed and replaced after each round that reaped
	none   bool                          // the last round found no child at all
}

// NewReaper starts reaping. Close ends it.
func NewReaper() *Reaper {
	r := &Reaper{
		sig:    make(chan os.Signal, 1),
		done:   make(chan struct{}),
		exited: make(map[int]func(unix.WaitStatus)),
		events: make(chan struct{}),
	}
	signal.Notify(r.sig, unix.SIGCHLD)
	r.wg.Go(r.loop)
	return r
}

// Close stops reaping and waits until the last round is over.
func (r *Reaper) Close() {
	signal.Stop(r.sig)
	close(r.done)
	r.wg.Wait()
}

// Start calls fork and has exited called once with the status of the process
// that it returned. The lock is held over both, so that a child which ends at
// once is not taken for a stranger. exited must not block.
func (r *Reaper) Start(fork func() (pid int, err error), exited func(unix.WaitStatus)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return err
	}
	r.exited[pid] = exited
	r.none = false
	return nil
}

// StartSelf starts another applet of the running program, by the name in argv, and
// returns its pid. Its three streams are the null device, its further descriptors
// are files, from 3 on; the Files of attr are not looked at. exited is as for Start.
func (r *Reaper) StartSelf(argv []string, attr syscall.ProcAttr, exited func(unix.WaitStatus), files ...*os.File) (pid int, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close() // nothing to lose
	attr.Files = []uintptr{null.Fd(), null.Fd(), null.Fd()}
	for _, f := range files {
		attr.Files = append(attr.Files, f.Fd())
	}
	err = r.Start(func() (int, error) {
		var err error
		pid, err = syscall.ForkExec(Self, argv, &attr)
		return pid, err
	}, exited)
	return pid, err
}

// Changed returns a channel that is closed after the next child was reaped, and
// whether there was no child at all when last looked. Take it before looking at
// the processes it is about.
func (r *Reaper) Changed() (<-chan struct{}, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events, r.none
}

func (r *Reaper) loop() {
	for {
		select {
		case <-r.done:
			return
		case <-r.sig:
			r.reap()
		}
	}
}

// reap takes all children that have ended.
func (r *Reaper) reap() {
	type end struct {
		exited func(unix.WaitStatus)
		status unix.WaitStatus
	}
	var ends []end
	r.mu.Lock()
	reaped := false
	for {
		var st unix.WaitStatus
		pid, err := unix.Wait4(-1, &st, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		r.none = errors.Is(err, unix.ECHILD)
		if err != nil || pid == 0 {
			break
		}
		reaped = true
		if f := r.exited[pid]; f != nil {
			delete(r.exited, pid)
			ends = append(ends, end{f, st})
		}
	}
	if reaped || r.none {
		close(r.events)
		r.events = make(chan struct{})
	}
	r.mu.Unlock()
	for _, e := range ends {
		e.exited(e.status)
	}
}

// Look makes the reaper look for ended children now, for callers that need a
// fresh answer of Changed.
func (r *Reaper) Look() { r.reap() }
