package proctree

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// process is a descendant with what identifies it.
type process struct {
	pid   int
	start uint64
}

// below returns the living processes below this one.
func below() []process {
	var out []process
	for _, pid := range Descendants(nil, os.Getpid()) {
		if st, err := ReadStat(pid); err == nil && st.State != 'Z' && st.State != 'X' {
			out = append(out, process{pid, st.Start})
		}
	}
	return out
}

// SignalAll sends the signals, in order, to every process below this one.
func SignalAll(sigs ...unix.Signal) {
	for _, p := range below() {
		for _, sig := range sigs {
			send(p.pid, p.start, sig)
		}
	}
}

// SignalGroup sends the signals, in order, to the processes below this one that
// are in a process group. A group of the same number elsewhere is left alone.
func SignalGroup(group int, sigs ...unix.Signal) {
	for _, pid := range Descendants(nil, os.Getpid()) {
		st, err := ReadStat(pid)
		if err != nil || st.Group != group {
			continue
		}
		for _, sig := range sigs {
			send(pid, st.Start, sig)
		}
	}
}

// WaitNone waits until this process has no child left, or ctx ends. As a
// subreaper's it has none exactly when nothing below it is alive.
func (r *Reaper) WaitNone(ctx context.Context) error {
	r.Look()
	for {
		changed, none := r.Changed()
		if none {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// KillAll kills everything below this process and returns when nothing is left,
// or when ctx ends (a process in an uninterruptible wait can not be killed yet).
//
// Each round first stops what it finds, until it finds nothing new, so that a
// tree that forks faster than it is killed can not outrun it, and then kills.
// What slips through is found in the next round, which begins when a child was reaped.
func (r *Reaper) KillAll(ctx context.Context) error {
	for {
		r.Look()
		changed, none := r.Changed()
		if none {
			return nil
		}
		killRound()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func killRound() {
	stopped := make(map[process]bool)
	for range 8 { // a bound: whoever forks on is met again in the next round
		fresh := false
		for _, p := range below() {
			if !stopped[p] {
				stopped[p] = true
				fresh = true
				send(p.pid, p.start, unix.SIGSTOP)
			}
		}
		if !fresh {
			break
		}
	}
	for p := range stopped {
		send(p.pid, p.start, unix.SIGKILL)
	}
}
