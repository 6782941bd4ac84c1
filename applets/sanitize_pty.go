package applets

import (
	"fmt"
	"io"

	"shellctl/pkg/sanitize"
)

// runSanitizePTY filters stdin to stdout.
func runSanitizePTY(c call) int {
	f := sanitize.New(c.stdout)
	if _, err := io.Copy(f, c.stdin); err != nil {
		fmt.Fprintf(c.stderr, "shellctl: sanitize-pty: %v\n", err)
		return exitFailed
	}
	if err := f.Close(); err != nil {
		fmt.Fprintf(c.stderr, "shellctl: sanitize-pty: %v\n", err)
		return exitFailed
	}
	return exitOK
}
