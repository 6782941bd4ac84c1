package isolation

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// deniedCalls are refused with EPERM: no job of an agent needs them, and
// kernels get broken by them. The program is built here from the numbers in
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
	retAllow = unix.SECCOMP_RET_ALLOW
	retErrno = unix.SECCOMP_RET_ERRNO // or'ed with the errno

	// Terminal ioctls that type into a terminal on somebody's behalf.
	ioctlTIOCSTI   = 0x5412
	ioctlTIOCLINUX = 0x541C

	// Ways to open a TCP connection that Landlock's port rules do not see.
	protoMPTCP = 0x106
	familySMC  = 43
)

// filterProgram returns the seccomp program of the policy.
func (p Policy) filterProgram() []unix.SockFilter {
	b := &program{}
	// Programs of another architecture have other numbers.
	b.load(offsetArch)
	b.when(jumpEqual, auditArch, 1, 0)
	b.ret(retErrno | uint32(unix.ENOSYS))
	b.load(offsetNr)
	for _, nr := range deniedCalls() {
		b.denyCall(nr, unix.EPERM)
	}
	// Its flags lie in memory, out of a filter's sight; libc falls back to clone.
	b.denyCall(unix.SYS_CLONE3, unix.ENOSYS)
	if x32Bit != 0 {
		b.denyAbove(x32Bit, unix.ENOSYS)
	}
	b.denyBits(unix.SYS_CLONE, 0, unix.CLONE_NEWUSER, unix.EPERM)
	b.denyBits(unix.SYS_UNSHARE, 0, unix.CLONE_NEWUSER, unix.EPERM)
	b.denyValues(unix.SYS_IOCTL, 1, unix.EPERM, ioctlTIOCSTI, ioctlTIOCLINUX)
	if p.ConnectPorts != nil || p.BindPorts != nil {
		b.denyTCPDetours()
	}
	b.ret(retAllow)
	return b.code
}

// denyTCPDetours makes programs fall back to the plain TCP that Landlock limits.
func (b *program) denyTCPDetours() {
	b.denyBits(unix.SYS_SENDTO, 3, unix.MSG_FASTOPEN, unix.EOPNOTSUPP)
	b.denyBits(unix.SYS_SENDMSG, 2, unix.MSG_FASTOPEN, unix.EOPNOTSUPP)
	b.denyBits(unix.SYS_SENDMMSG, 3, unix.MSG_FASTOPEN, unix.EOPNOTSUPP)
	b.denySocket(unix.EPROTONOSUPPORT)
}

// filterSyscalls installs the filter on the calling thread. no_new_privs must be
// set.
func (p Policy) filterSyscalls() error {
	if !p.Seccomp {
		return nil
	}
	if why := seccompMissing(); why != "" {
		if p.Require {
			return fmt.Errorf("required but missing: %s", why)
		}
		return nil
	}
	code := p.filterProgram()
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
	action := uint32(retErrno)
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
