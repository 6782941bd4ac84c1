package isolation

import (
	"errors"
	"fmt"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// kernelABI returns the Landlock ABI of the kernel, or 0 and why there is none.
func kernelABI() (int, string) {
	abi, err := ll.LandlockGetABIVersion()
	switch {
	case err == nil:
		return abi, ""
	case errors.Is(err, unix.ENOSYS):
		return 0, "the kernel has no Landlock (ENOSYS)"
	case errors.Is(err, unix.EOPNOTSUPP):
		return 0, "Landlock is not among the security modules enabled at boot (EOPNOTSUPP)"
	case errors.Is(err, unix.EPERM):
		return 0, "Landlock is blocked, probably by the container's seccomp profile (EPERM)"
	}
	return 0, fmt.Sprintf("Landlock does not answer (%v)", err)
}

// landlockABI returns the ABI that jobs are confined with, 0 for none, and an
// error if the policy requires more than there is.
func (p Policy) landlockABI() (int, error) {
	if !p.Paths {
		return 0, nil
	}
	kernel, why := kernelABI()
	abi := p.usableABI(kernel)
	if p.Require {
		return abi, p.lacking(abi, why)
	}
	return abi, nil
}

// lacking is the error for a kernel that can not do what Require promises.
func (p Policy) lacking(abi int, why string) error {
	if abi == 0 {
		return fmt.Errorf("required but missing: %s", why)
	}
	if abi < abiTCP && (p.ConnectPorts != nil || p.BindPorts != nil) {
		return fmt.Errorf("required but missing: TCP limits need Landlock ABI %d, this is %d", abiTCP, abi)
	}
	return nil
}

// commonRules returns the rules that are the same for all jobs.
func (p Policy) commonRules(abi int, private mounts) (*ruleset, error) {
	r, err := newRuleset(p.handled(abi))
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		r.allowTrees(envRW, writeTree, p.RW...),
		r.allowTrees(envRO, readTree, p.RO...),
		p.allowDevices(r),
		allowTools(r, private),
		p.allowTerminals(r, private),
		p.allowNet(r, abi),
	)
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// allowJob adds the rules of one job.
func (c *Cell) allowJob(job Job) error {
	state := job.State
	if fd, real, err := openDir(state); err == nil {
		unix.Close(fd)
		state = real
	}
	return errors.Join(
		c.rules.allowHome(job.Home, state),
		c.rules.allowCwd(job.Cwd, state),
		c.rules.allow(readExec, job.Script),
		c.rules.allow(useTTY, job.TTY),
	)
}

// allowTools grants what common programs need and no list names.
func allowTools(r *ruleset, private mounts) error {
	shm := uint64(shareMemory)
	if private.shm {
		shm = writeTree
	}
	return errors.Join(
		r.allowAny(shm, "/dev/shm"),
		// How many CPUs and how much memory there is.
		r.allowAny(readDir, "/sys/fs/cgroup", "/sys/devices/system/cpu"),
		// Name resolution: /etc/resolv.conf is often a link to one of these.
		r.allowAny(resolve, "/run/systemd/resolve", "/run/resolvconf", "/run/nscd"),
		r.allowAny(readFile, "/etc/resolv.conf", "/run/NetworkManager/resolv.conf"),
	)
}

// plainDevice tells the devices that answer no ioctl a program needs. Any other
// device of the list is there to be driven: terminals, GPUs.
func plainDevice(path string) bool {
	switch path {
	case "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom":
		return true
	}
	return false
}

func (p Policy) allowDevices(r *ruleset) error {
	for _, path := range p.Devices {
		rights := uint64(useTTYs)
		if plainDevice(path) {
			rights = useDevice
		}
		if err := r.allowAny(rights, path); err != nil {
			return err
		}
	}
	return nil
}

// allowTerminals grants those a job opens itself. Landlock can not tell them
// from other jobs', which lie in the same directory, unless that directory is
// the job's alone. Its own terminal is granted by its exact path.
func (p Policy) allowTerminals(r *ruleset, private mounts) error {
	if p.PTYs == PTYsAll || private.pts {
		return r.allowAny(useTTYs, "/dev/pts", "/dev/ptmx")
	}
	return nil
}

func (p Policy) allowNet(r *ruleset, abi int) error {
	if abi < abiTCP {
		return nil
	}
	return errors.Join(
		r.allowPorts(ll.AccessNetConnectTCP, p.ConnectPorts),
		r.allowPorts(ll.AccessNetBindTCP, p.BindPorts),
	)
}
