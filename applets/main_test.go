package applets_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shellctl/applets"
	"shellctl/pkg/proctree"
)

// TestMain makes the test binary the product: called by any other name than its
// own it is the multi-call binary, so that tests and the processes that those
// start run the real program, with the race detector when the tests have it.
func TestMain(m *testing.M) {
	if !strings.HasSuffix(os.Args[0], ".test") {
		os.Exit(applets.Main(os.Args))
	}
	// Whatever a test leaves behind becomes a child of this process and is found.
	if err := proctree.SetSubreaper(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	removePrograms()
	awaitChildren()
	if left := leftProcesses(); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "FAIL: processes are left over:\n%s\n", strings.Join(left, "\n"))
		code = 1
	}
	os.Exit(code)
}

// awaitChildren gives what is ending the time to do so: a spare runner sees its
// server go, and the race detector holds every exit for a second.
func awaitChildren() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && !errors.Is(err, unix.EINTR) {
				return // no child is left
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
	}
}

// leftProcesses describes the living processes below this one.
func leftProcesses() []string {
	for { // adopted ones that have ended
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != nil || pid <= 0 {
			break
		}
	}
	var left []string
	for _, pid := range proctree.Descendants(nil, os.Getpid()) {
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if st, serr := proctree.ReadStat(pid); err != nil || serr != nil || st.State == 'Z' {
			continue // gone meanwhile
		}
		left = append(left, fmt.Sprintf("%d: %s", pid, strings.ReplaceAll(string(cmdline), "\x00", " ")))
	}
	return left
}
