package proctree

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// DropProgram gives back the pages of this process's own program file. The kernel
// maps far around each place that was used once; what is needed again is mapped
// again from the page cache.
//
// It leaves a dynamically linked program, as tests are, alone: the loader has
// written to parts of it that look read-only since.
func DropProgram() {
	self, err := os.Readlink(Self)
	if err != nil {
		return // no /proc: the memory stays
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil || bytes.Contains(maps, []byte("/ld-")) {
		return
	}
	for line := range bytes.Lines(maps) {
		if !bytes.HasSuffix(bytes.TrimSpace(line), []byte(self)) {
			continue
		}
		place, rest, _ := bytes.Cut(line, []byte(" "))
		if perms := string(rest[:4]); perms != "r-xp" && perms != "r--p" {
			continue // may have been written to
		}
		from, to, _ := bytes.Cut(place, []byte("-"))
		start, err1 := strconv.ParseUint(string(from), 16, 64)
		end, err2 := strconv.ParseUint(string(to), 16, 64)
		if err1 == nil && err2 == nil {
			_, _, _ = unix.RawSyscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_DONTNEED) // then it stays
		}
	}
}
