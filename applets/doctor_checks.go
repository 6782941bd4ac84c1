package applets

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"shellctl/pkg/proctree"
)

// checkLimit is how long a check may take; a file system that hangs is a finding.
const checkLimit = 20 * time.Second

// check is one thing to try. It gets the state directory.
type check struct {
	name string
	try  func(stateDir string) []finding
}

// checks lists them in the order of the report.
func checks() []check {
	one := func(try func() finding) func(string) []finding {
		return func(string) []finding { return []finding{try()} }
	}
	return []check{
		{"settings", one(checkSettings)},
		{"isolation", checkIsolation},
		{"job", one(checkJob)},
		{"home", one(checkHome)},
		{"shell", one(checkShell)},
		{"terminal", one(checkTerminal)},
		{"subreaper", one(checkSubreaper)},
		{"state", checkState},
		{"clock", one(checkClock)},
		{"cgroup", one(checkCgroup)},
		{"token", one(checkToken)},
	}
}

// checkHere makes one check and tells the parent.
func checkHere(o doctorOptions, w io.Writer) error {
	for _, c := range checks() {
		if c.name == o.check {
			return json.NewEncoder(w).Encode(c.try(o.stateDir))
		}
	}
	return fmt.Errorf("no check is called %q", o.check)
}

// checkInChild makes a check in a process of its own.
func checkInChild(ctx context.Context, name, stateDir string) []finding {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, proctree.Self, "doctor", "--check", name, "--state-dir", stateDir)
	cmd.Args[0] = "shellctl"
	cmd.WaitDelay = time.Second
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	var found []finding
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &found)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer after %v", checkLimit)
	}
	if err != nil {
		said, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return []finding{broken(name, strings.TrimSpace(err.Error()+" "+said), "see what keeps this process from it")}
	}
	return found
}

// workdir makes a directory for the time of a check, where the server's user can
// write: the directory for temporary files, else HOME.
func workdir() (dir string, done func(), err error) {
	dir, err = os.MkdirTemp("", "shellctl-doctor-")
	if err != nil {
		dir, err = os.MkdirTemp(cmp.Or(os.Getenv("HOME"), "."), ".shellctl-doctor-")
	}
	if err != nil {
		return "", nil, fmt.Errorf("make directory to try in: %w", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil // nothing in it is worth a report
}
