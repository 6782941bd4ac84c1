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

// build returns the rules for a job, nil if Landlock is off or missing.
func (p Policy) build(job Job, private mounts) (*ruleset, error) {
	if !p.Paths {
		return nil, nil
	}
	kernel, why := kernelABI()
	abi := p.usableABI(kernel)
	if p.Require {
		if err := p.lacking(abi, why); err != nil {
			return nil, err
		}
	}
	if abi == 0 {
		return nil, nil
	}
	r, err := newRuleset(p.handled(abi))
	if err != nil {
		return nil, err
	}
	if err := p.fill(r, job, private, abi); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
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

// fill adds all rules of the policy for a job.
func (p Policy) fill(r *ruleset, job Job, private mounts, abi int) error {
	state := job.State
	if fd, real, err := openDir(state); err == nil {
		unix.Close(fd)
		state = real
	}
	return errors.Join(
		r.allowHome(job.Home, state),
		r.allowCwd(job.Cwd, state),
		r.allow(readExec, job.Script),
		r.allow(writeTree, p.RW...),
		r.allow(readTree, p.RO...),
		p.allowDevices(r),
		allowTools(r, private),
		p.allowTerminals(r, job.TTY, private),
		p.allowNet(r, abi),
	)
}

// allowTools grants what common programs need and no list names.
func allowTools(r *ruleset, private mounts) error {
	shm := uint64(shareMemory)
	if private.shm {
		shm = writeTree
	}
	return errors.Join(
		r.allow(shm, "/dev/shm"),
		// How many CPUs and how much memory there is.
		r.allow(readDir, "/sys/fs/cgroup", "/sys/devices/system/cpu"),
		// Name resolution: /etc/resolv.conf is often a link to one of these.
		r.allow(resolve, "/run/systemd/resolve", "/run/resolvconf", "/run/nscd"),
		r.allow(readFile, "/etc/resolv.conf", "/run/NetworkManager/resolv.conf"),
	)
}

// plainDevices answer no ioctl that any program needs. Every other device of
// the list is there to be driven: terminals, GPUs.
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
		if err := r.allow(rights, path); err != nil {
			return err
		}
	}
	return nil
}

// allowTerminals grants the job's own terminal by its exact path. Landlock can
// not tell a terminal the job opens itself from one of another job, as they lie
// in one directory, unless that directory is the job's alone.
func (p Policy) allowTerminals(r *ruleset, tty string, private mounts) error {
	if p.PTYs == PTYsAll || private.pts {
		return r.allow(useTTYs, "/dev/pts", "/dev/ptmx")
	}
	if tty == "" {
		return nil
	}
	return r.allow(useTTY, tty)
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
