package proctree

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// DropProgram gives back the pages of this process's own program file. The kernel
// maps far around each place that was used once; what is needed again is mapped
// again from the page cache.
func DropProgram() {
	self, err := os.Readlink(Self)
	if err != nil {
		return // no /proc: the memory stays
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return // as above
	}
	for line := range bytes.Lines(maps) {
		var start, end uintptr
		var perms string
		if _, err := fmt.Sscanf(string(line), "%x-%x %s", &start, &end, &perms); err != nil || !bytes.Contains(line, []byte(self)) {
			continue
		}
		if perms == "r-xp" || perms == "r--p" { // never written: nothing is lost
			_, _, _ = unix.RawSyscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED) // then it stays
		}
	}
}
