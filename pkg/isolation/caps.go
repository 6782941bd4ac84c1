package isolation

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// capsDropped are the capabilities with which a job of root could read around
// its confinement: environ and maps of any process (perfmon and sys_admin pass
// the check Landlock relies on), memory, modules, and raw devices.
const capsDropped = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_PERFMON | 1<<unix.CAP_BPF |
	1<<unix.CAP_SYS_MODULE | 1<<unix.CAP_SYS_RAWIO | 1<<unix.CAP_SYS_PTRACE |
	1<<unix.CAP_MKNOD | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_SYS_BOOT

// dropped adds what would let root lift the limits of a job.
func (p Policy) dropped() uint64 {
	if p.Limits.none() {
		return capsDropped
	}
	return capsDropped | 1<<unix.CAP_SYS_RESOURCE
}

// dropCaps takes capabilities from the calling thread. no_new_privs must be
// set: it keeps an exec by root from getting them back from the bounding set.
func dropCaps(mask uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	for i := range sets {
		drop := uint32(mask >> (32 * i))
		sets[i].Effective &^= drop
		sets[i].Permitted &^= drop
		sets[i].Inheritable &^= drop // the ambient set follows
	}
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}
