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
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return // as above
	}
	var start, end uintptr
	var perms string
	ours := false
	for line := range bytes.Lines(maps) {
		if !bytes.HasPrefix(line, []byte("Anonymous:")) {
			if n, err := fmt.Sscanf(string(line), "%x-%x %s", &start, &end, &perms); n == 3 && err == nil {
				ours = bytes.Contains(line, []byte(self))
			}
			continue
		}
		// Read-only does not mean never written: the loader relocates parts of a
		// dynamically linked program, as tests are, and then takes the right away.
		clean := bytes.Equal(bytes.Fields(line)[1], []byte("0"))
		if ours && clean && (perms == "r-xp" || perms == "r--p") {
			_, _, _ = unix.RawSyscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED) // then it stays
		}
	}
}
