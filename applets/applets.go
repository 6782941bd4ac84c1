// Package applets is the outer skin of the multi-call binary: the table of
// applets, the dispatch by name, and one thin file per applet that turns flags
// into a call of a package and its result into an exit code.
package applets

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Exit codes of the binary itself.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// call is one invocation of an applet.
type call struct {
	name   string // how the applet was called, for help and messages: "shellctl serve", "dify-agent"
	args   []string
	stdin  *os.File
	stdout io.Writer
	stderr io.Writer
}

// applet is a row of the table.
type applet struct {
	name      string
	installed string // base name that picks the applet by itself, or ""
	short     string
	internal  bool // called by the product itself, listed apart
	run       func(c call) int
}

// Main runs the applet that args ask for and returns the exit code.
//
// The base name of args[0] picks the applet; under any other name the first
// argument does. An installed name reaches its own applet only.
func Main(args []string) int {
	c := call{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	base := "shellctl"
	if len(args) > 0 {
		base = filepath.Base(args[0])
		c.args = args[1:]
	}
	for _, a := range table() {
		if base == a.installed || base == a.name {
			c.name = base
			return a.run(c)
		}
	}
	if len(c.args) == 0 {
		usage(c.stdout, base)
		return exitOK
	}
	first := c.args[0]
	switch first {
	case "help", "-h", "--help":
		usage(c.stdout, base)
		return exitOK
	case "version", "--version":
		fmt.Fprintln(c.stdout, base, version())
		return exitOK
	}
	for _, a := range table() {
		if first == a.name || first == a.installed && first != "" {
			c.name = base + " " + first
			c.args = c.args[1:]
			return a.run(c)
		}
	}
	fmt.Fprintf(c.stderr, "%s: unknown applet %q\nTry '%s help' for the list of applets.\n", base, first, base)
	return exitUsage
}

// usage prints the list of applets to w; base is the name of the binary as called.
func usage(w io.Writer, base string) {
	fmt.Fprintf(w, "Usage: %s APPLET [ARGUMENT...]\n\nRuns shell jobs for agents over HTTP.\n", base)
	for _, internal := range []bool{false, true} {
		if internal {
			fmt.Fprintf(w, "\nUsed by the product itself:\n")
		} else {
			fmt.Fprintf(w, "\nApplets:\n")
		}
		for _, a := range table() {
			if a.internal != internal {
				continue
			}
			also := ""
			if a.installed != "" {
				also = " (also " + a.installed + ")"
			}
			fmt.Fprintf(w, "  %-13s %s%s\n", a.name, a.short, also)
		}
	}
	fmt.Fprintf(w, "\n'%s APPLET --help' explains one.\n", base)
}

// doubleDash lets flags of several letters start with one dash, as the flag
// package of the standard library does: -listen is --listen.
func doubleDash(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		if len(a) > 2 && a[0] == '-' && a[1] != '-' && !strings.ContainsAny(a[1:2], "0123456789.") {
			a = "-" + a
		}
		out[i] = a
	}
	return out
}
