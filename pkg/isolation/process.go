package isolation

import (
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// HideProcess makes the calling process non-dumpable: other processes of the
// user can neither read its environment and memory nor trace it, and it leaves
// no core. A program it starts is dumpable again.
func HideProcess() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("set process non-dumpable: %w", err)
	}
	return nil
}

// TakeSecret returns the value of a variable and removes it from the
// environment, also from the block the kernel shows as /proc/<pid>/environ,
// which Unsetenv leaves as it was when the process started. Strings read from
// that variable before are blanked too, so read it only here.
func TakeSecret(name string) string {
	held := os.Getenv(name)
	value := strings.Clone(held)
	if len(held) > 0 {
		// The runtime keeps the environment as strings that lie in the block
		// itself, on the process's stack, or on the heap: both can be written.
		clear(unsafe.Slice(unsafe.StringData(held), len(held)))
	}
	os.Unsetenv(name)
	return value
}
