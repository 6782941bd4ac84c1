package isolation

import (
	"fmt"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// CloseOnExec keeps every descriptor but the three standard ones from the
// programs this process starts. Whoever started it may have left some open, and
// what is open already no rule restricts.
func CloseOnExec() error {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	// Before Linux 5.11 one by one.
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("close descriptors on exec: %w", err)
	}
	for _, e := range open {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
