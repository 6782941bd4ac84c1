package isolation

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Cell is the confinement of one job on one thread. Use it, in this order, from
// one function run by [OnThread]: Enter, open the terminal, Restrict, ForkExec.
type Cell struct {
	policy  Policy
	private mounts
	ns      *os.File // keeps the mount namespace, or nil
}

// Enter gives the calling thread what only a privileged runner can: terminals
// and shared memory of its own. Open the job's terminal on this thread after
// it, and never again by path, which means another terminal elsewhere.
//
// Close the Cell when the job is over, not before.
func (p Policy) Enter() (*Cell, error) {
	if onMainThread() {
		return nil, errors.New("enter cell: on the main thread")
	}
	// For the whole process: the runner's own core is as unwanted.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return nil, fmt.Errorf("set core limit: %w", err)
	}
	c := &Cell{policy: p}
	if !p.wantsMounts() {
		return c, nil
	}
	c.private, _ = mountPrivate() // what is missing is in the report
	if c.private.pts {
		// The last process to leave a mount namespace waits for its dismantling;
		// the runner shall be that, after the job's end is told.
		c.ns, _ = os.Open("/proc/thread-self/ns/mnt")
	}
	return c, nil
}

// wantsMounts: only under Landlock, which keeps the job from mounting back.
func (p Policy) wantsMounts() bool {
	abi, _ := kernelABI()
	return p.Paths && p.PTYs != PTYsAll && p.usableABI(abi) > 0
}

// Close releases what the job had to itself.
func (c *Cell) Close() error {
	if c.ns == nil {
		return nil
	}
	return c.ns.Close()
}

// Restrict confines the calling thread for good. After an error nothing may be
// started from it.
func (c *Cell) Restrict(job Job) error {
	p := c.policy
	if !p.Paths && !p.Seccomp && !p.DropCaps {
		return nil
	}
	rules, err := p.build(job, c.private)
	if err != nil {
		return err
	}
	if rules != nil {
		defer rules.close()
	}
	// The layers below need no privilege once the job can not gain any.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if p.DropCaps {
		if err := dropCaps(p.dropped()); err != nil {
			return err
		}
	}
	if rules != nil {
		if err := rules.enforce(); err != nil {
			return err
		}
	}
	return p.filterSyscalls()
}

// ForkExec starts a program from the restricted thread and returns its pid.
// Its errors are those of [syscall.ForkExec] as they are, for the caller to
// tell a missing program from one that can not be run, or about limits.
//
// Until it returns no other goroutine may wait for children without WNOWAIT.
func (c *Cell) ForkExec(argv0 string, argv []string, attr *syscall.ProcAttr) (int, error) {
	return c.policy.Limits.forkExec(argv0, argv, attr)
}
