package isolation

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
)

// HideArguments overwrites values with asterisks in what the kernel shows of
// this process as its command line, which everybody may read. An argument is
// the value itself or ends in "=" and the value. The strings of [os.Args] may
// lie in the same memory: clone what is still needed. Call it before
// [HideProcess].
func HideArguments(values ...string) error {
	values = slices.DeleteFunc(values, func(v string) bool { return v == "" })
	if len(values) == 0 {
		return nil
	}
	if err := hideArguments(values); err != nil {
		return fmt.Errorf("hide arguments: %w", err)
	}
	return nil
}

func hideArguments(values []string) error {
	block, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		return err
	}
	at, err := statAddress(argStart)
	if err != nil {
		return err
	}
	mem, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	for arg := range bytes.SplitAfterSeq(block, []byte{0}) {
		text := string(bytes.TrimSuffix(arg, []byte{0}))
		for _, v := range values {
			if text != v && !strings.HasSuffix(text, "="+v) {
				continue
			}
			// Never a NUL: then the kernel would look for a title set by the program.
			stars := bytes.Repeat([]byte("*"), len(v))
			if _, err := mem.WriteAt(stars, at+int64(len(text)-len(v))); err != nil {
				return err
			}
		}
		at += int64(len(arg))
	}
	return nil
}
