package applets

import "runtime/debug"

// stamped is set by the linker of a release build: "1.2.3 (commit)".
var stamped string

// version is the version of the running binary.
func version() string {
	if stamped != "" {
		return stamped
	}
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		return b.Main.Version
	}
	return "devel"
}
