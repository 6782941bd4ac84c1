package isolation

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

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
// environment, also from what the kernel shows as /proc/<pid>/environ, which
// Unsetenv leaves as it was when the process started. An error concerns only
// that: the value is good. Call it before [HideProcess], which closes the files
// it needs.
func TakeSecret(name string) (string, error) {
	value, ok := os.LookupEnv(name)
	if !ok {
		return "", nil
	}
	return value, errors.Join(os.Unsetenv(name), wipeEnviron(name))
}

// wipeEnviron blanks the value in the block on the stack that the process got
// its environment in. The runtime has copied it.
func wipeEnviron(name string) error {
	err := rewriteBlock("/proc/self/environ", environStart, func(entry []byte) bool {
		value, found := bytes.CutPrefix(entry, []byte(name+"="))
		clear(value)
		return found
	})
	if err != nil {
		return fmt.Errorf("wipe %s: %w", name, err)
	}
	return nil
}

// rewriteBlock changes strings on the stack that the kernel shows as a file, each
// with its NUL. edit gets a copy of each, which it changes in place, and reports
// whether it did. field says where the block begins.
func rewriteBlock(file string, field int, edit func(entry []byte) bool) error {
	block, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	at, err := statAddress(field)
	if err != nil {
		return err
	}
	mem, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	for entry := range bytes.SplitAfterSeq(block, []byte{0}) {
		if edit(entry) {
			if _, err := mem.WriteAt(entry, at); err != nil {
				return err
			}
		}
		at += int64(len(entry))
	}
	return nil
}

// The fields of /proc/self/stat that hold where the kernel put the arguments
// and the environment; see proc_pid_stat(5).
const (
	argStart     = 48
	environStart = 50
)

// statAddress reads a field of /proc/self/stat.
func statAddress(field int) (int64, error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, err
	}
	// The second field is the program's name in parentheses, with anything in it.
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if field -= 3; len(f) <= field {
		return 0, errors.New("no addresses in /proc/self/stat")
	}
	return strconv.ParseInt(string(f[field]), 10, 64)
}
