package manager

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// littleSpace is less than the record of a fresh server takes.
const littleSpace = 256 << 10

// fullDisk is a remark for a message if the file system of dir is full, else
// empty. What SQLite says of it may be as little as "disk I/O error".
func fullDisk(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return ""
	}
	free := st.Bavail * uint64(st.Bsize)
	if free >= littleSpace {
		return ""
	}
	return fmt.Sprintf(" (file system is full: %d KiB free)", free>>10)
}
