package isolation

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// deniedCalls are refused with EPERM: no job of an agent needs them, and
// kernels get broken by them. The program is built here, from the numbers in
// x/sys: a library with the tables of all architectures costs every process of
// the binary 0.25 ms and 165 KB at its start.
func deniedCalls() []uint32 {
	return []uint32{
		unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOVE_MOUNT,
		unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_FSCONFIG, unix.SYS_FSPICK,
		unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOUNT_SETATTR,
		unix.SYS_SETNS, unix.SYS_OPEN_BY_HANDLE_AT,
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	}
}

const (
	// Terminal ioctls that type into a terminal on somebody's behalf.
	ioctlTIOCSTI   = 0x5412
	ioctlTIOCLINUX = 0x541C

	// Sockets that carry TCP past Landlock's port rules.
	protoMPTCP = 0x106
	familySMC  = 43
)

// filter returns the seccomp program of the policy.
func (p Policy) filter() program {
	var rules []rule
	for _, nr := range deniedCalls() {
		rules = append(rules, rule{nr, program{fail(unix.EPERM)}})
	}
	rules = append(
		rules,
		// Its flags lie in memory, out of a filter's sight; libc falls back to clone.
		rule{unix.SYS_CLONE3, program{fail(unix.ENOSYS)}},
		rule{unix.SYS_CLONE, denyBits(0, unix.CLONE_NEWUSER, unix.EPERM)},
		rule{unix.SYS_UNSHARE, denyBits(0, unix.CLONE_NEWUSER, unix.EPERM)},
		rule{unix.SYS_IOCTL, denyValues(1, ioctlTIOCSTI, ioctlTIOCLINUX, unix.EPERM)},
	)
	if p.ConnectPorts != nil || p.BindPorts != nil {
		rules = append(rules, tcpDetours()...)
	}
	return assemble(rules)
}

// tcpDetours makes programs fall back to the plain TCP that Landlock limits.
func tcpDetours() []rule {
	return []rule{
		{unix.SYS_SENDTO, denyBits(3, unix.MSG_FASTOPEN, unix.EOPNOTSUPP)},
		{unix.SYS_SENDMSG, denyBits(2, unix.MSG_FASTOPEN, unix.EOPNOTSUPP)},
		{unix.SYS_SENDMMSG, denyBits(3, unix.MSG_FASTOPEN, unix.EOPNOTSUPP)},
		{unix.SYS_SOCKET, program{
			loadArg(0), ifEqual(familySMC, 2, 0),
			loadArg(2), ifEqual(protoMPTCP, 0, 1),
			fail(unix.EPROTONOSUPPORT), allow(),
		}},
	}
}

// filterSyscalls installs the filter on the calling thread. no_new_privs must be
// set.
func (p Policy) filterSyscalls() error {
	if why := seccompMissing(); why != "" {
		if p.Require {
			return fmt.Errorf("required but missing: %s", why)
		}
		return nil
	}
	code := p.filter()
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	// Without this flag kernels before 5.16 slow the job down by mitigations.
	err := seccomp(unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, unsafe.Pointer(&prog))
	if errors.Is(err, unix.EINVAL) {
		err = seccomp(unix.SECCOMP_SET_MODE_FILTER, 0, unsafe.Pointer(&prog))
	}
	if err != nil {
		return fmt.Errorf("install seccomp filter: %w", err)
	}
	return nil
}

// seccompMissing says why the kernel has no seccomp filters, or nothing.
func seccompMissing() string {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	err := seccomp(unix.SECCOMP_GET_ACTION_AVAIL, 0, unsafe.Pointer(&action))
	if err != nil {
		return fmt.Sprintf("the kernel has no seccomp filters (%v)", err)
	}
	return ""
}

func seccomp(op, flags uintptr, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, op, flags, uintptr(arg))
	if errno != 0 {
		return errno
	}
	return nil
}
