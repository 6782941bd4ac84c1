package applets

import (
	"fmt"

	"shellctl/pkg/runner"
)

// runRunner owns one job. It parses nothing: all it needs comes through the
// connection that it inherits.
func runRunner(c call) int {
	if len(c.args) > 0 {
		fmt.Fprintf(c.stdout, "Usage: %s\n\nOwns one shell job. Started by the server only, with its job on descriptor 3.\n", c.name)
		if a := c.args[0]; a == "--help" || a == "-h" || a == "help" {
			return exitOK
		}
		return exitUsage
	}
	if err := runner.Run(); err != nil {
		fmt.Fprintf(c.stderr, "shellctl-runner: %v\n", err)
		return exitFailed
	}
	return exitOK
}
