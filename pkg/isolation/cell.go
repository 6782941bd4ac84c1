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
	rules   *ruleset // what all jobs are granted; nil without Landlock
	closed  bool     // to further rules: the thread is confined
}

// Enter does to the calling thread everything that does not depend on the job,
// so a runner can be here before it has one. Where mounting is allowed, the
// thread then has terminals and shared memory of its own: open the job's
// terminal on this thread, and never again by path, which is another terminal's
// elsewhere.
//
// An error means that no job may be started. Close the Cell when the job is
// over, not before.
func (p Policy) Enter() (*Cell, error) {
	if onMainThread() {
		return nil, errors.New("enter cell: on the main thread")
	}
	// For the whole process: the runner's own core is as unwanted.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return nil, fmt.Errorf("set core limit: %w", err)
	}
	c := &Cell{policy: p}
	if !p.Paths && !p.Seccomp && !p.DropCaps {
		return c, nil
	}
	if err := c.prepare(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// prepare adds the layers in the order in which one permits the next: mounts
// need a capability, the filter forbids mounts, and neither Landlock nor the
// filter needs a privilege once the job can gain none.
func (c *Cell) prepare() error {
	p := c.policy
	abi, err := p.landlockABI()
	if err != nil {
		return err
	}
	if abi > 0 && p.PTYs != PTYsAll { // Landlock keeps the job from mounting back
		c.enterMounts()
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if p.DropCaps {
		if err := dropCaps(p.dropped()); err != nil {
			return err
		}
	}
	if abi > 0 {
		if c.rules, err = p.commonRules(abi, c.private); err != nil {
			return err
		}
	}
	if p.Seccomp {
		return p.filterSyscalls()
	}
	return nil
}

func (c *Cell) enterMounts() {
	c.private, _ = mountPrivate() // what is missing is in the report
	if c.private.pts {
		// The last process to leave a mount namespace waits for its dismantling;
		// the runner shall be that, after the job's end is told.
		c.ns, _ = os.Open("/proc/thread-self/ns/mnt")
	}
}

// Restrict confines the calling thread to the job, for good. After an error
// nothing can be started from it.
func (c *Cell) Restrict(job Job) error {
	if c.rules != nil {
		defer c.dropRules()
		if err := c.allowJob(job); err != nil {
			return err
		}
		if err := c.rules.enforce(); err != nil {
			return err
		}
	}
	c.closed = true
	return nil
}

// ForkExec starts a program from the restricted thread and returns its pid.
// Its errors are those of [syscall.ForkExec] as they are, for the caller to
// tell a missing program from one that can not be run, or about limits.
//
// Until it returns no other goroutine may wait for children without WNOWAIT.
func (c *Cell) ForkExec(argv0 string, argv []string, attr *syscall.ProcAttr) (int, error) {
	if !c.closed {
		return 0, errors.New("start program: the thread is not restricted")
	}
	return c.policy.Limits.forkExec(argv0, argv, attr)
}

// Close releases what the job had to itself. It may be called on any thread.
func (c *Cell) Close() error {
	c.dropRules()
	if c.ns == nil {
		return nil
	}
	return c.ns.Close()
}

func (c *Cell) dropRules() {
	if c.rules != nil {
		c.rules.close()
		c.rules = nil
	}
}
