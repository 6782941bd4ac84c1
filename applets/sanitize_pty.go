package applets

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"shellctl/pkg/sanitize"
)

const sanitizeHelp = `Usage: %s [--ready-file PATH]

Turns the bytes of a terminal on stdin into plain text on stdout.

      --ready-file PATH   create PATH, empty, before the first read
  -h, --help              show this text
`

// runSanitizePTY filters stdin to stdout. It does without cobra, like the rest of
// what starts once for a job.
func runSanitizePTY(c call) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	ready := flags.String("ready-file", "", "")
	err := flags.Parse(c.args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(c.stdout, sanitizeHelp, c.name)
		return exitOK
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err != nil {
		fmt.Fprintf(c.stderr, "shellctl: sanitize-pty: %v\nTry '%s --help'.\n", err, c.name)
		return exitUsage
	}
	// Without this the runtime kills the process at EPIPE: the exit code would
	// depend on who started it.
	signal.Ignore(syscall.SIGPIPE)
	err = sanitizePTY(c.stdin, c.stdout, *ready)
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		fmt.Fprintf(c.stderr, "shellctl: sanitize-pty: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// sanitizePTY filters in to out until in ends. What was read before an error is
// written out too.
func sanitizePTY(in *os.File, out io.Writer, ready string) error {
	if ready != "" {
		if err := os.WriteFile(ready, nil, 0o644); err != nil {
			return fmt.Errorf("create ready file: %w", err)
		}
	}
	f := sanitize.New(out)
	err := sanitizeAll(in, f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// sanitizeAll feeds in to f. It waits for input no longer than until held text
// such as a prompt is due to be shown.
func sanitizeAll(in *os.File, f *sanitize.Filter) error {
	buf := make([]byte, 64<<10)
	for {
		if at := f.ShowAt(); !at.IsZero() && !readable(in, at) {
			if err := f.Show(); err != nil {
				return err
			}
			continue
		}
		n, err := in.Read(buf)
		if _, err := f.Write(buf[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readable waits for input until a time that may have passed, and reports whether
// a read before that time will return at once. It takes poll and no read deadline: that would need a descriptor that does
// not block, and stdin shares this property with every process that has it.
func readable(in *os.File, until time.Time) bool {
	conn, err := in.SyscallConn()
	if err != nil {
		return true
	}
	ready := true
	if err := conn.Control(func(fd uintptr) { ready = poll(int(fd), until) }); err != nil {
		return true
	}
	return ready
}

// poll waits until fd has input, or its end, or something to complain about.
func poll(fd int, until time.Time) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		wait := time.Until(until)
		if wait <= 0 {
			return false
		}
		// Rounded up, as poll counts milliseconds: it must not return early.
		n, err := unix.Poll(fds, int((wait+time.Millisecond-1)/time.Millisecond))
		if !errors.Is(err, syscall.EINTR) {
			return err != nil || n > 0
		}
	}
}
