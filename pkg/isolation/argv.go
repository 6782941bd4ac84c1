package isolation

import (
	"bytes"
	"fmt"
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
	err := rewriteBlock("/proc/self/cmdline", argStart, func(arg []byte) bool {
		text := bytes.TrimSuffix(arg, []byte{0})
		shown, hidden := string(text), false
		for _, v := range values {
			if shown == v || strings.HasSuffix(shown, "="+v) {
				// Never a NUL: then the kernel would look for a title set by the program.
				copy(text[len(text)-len(v):], bytes.Repeat([]byte("*"), len(v)))
				hidden = true
			}
		}
		return hidden
	})
	if err != nil {
		return fmt.Errorf("hide arguments: %w", err)
	}
	return nil
}
