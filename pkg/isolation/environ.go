package isolation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The defaults of the three path lists. A list that is set replaces its default.
func defaultRO() []string {
	return []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc",
		"/opt/dify-agent-tools", "/opt/homebrew", "/snap",
	}
}

func defaultDevices() []string {
	return []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/random", "/dev/tty"}
}

// The variables of the two lists of directories.
const (
	envRW = "SHELLCTL_LANDLOCK_RW_PATHS"
	envRO = "SHELLCTL_LANDLOCK_RO_PATHS"
)

// FromEnviron reads the policy from the server's environment. The notes name
// the entries of the path lists that do not exist now, for one log line.
func FromEnviron(lookup func(string) (string, bool)) (Policy, []string, error) {
	e := environ{lookup: lookup}
	p := Policy{
		Paths:        e.exactly("SHELLCTL_ENABLE_PATH_ISOLATION", true),
		Require:      e.exactly("SHELLCTL_REQUIRE_PATH_ISOLATION", false),
		RW:           e.paths(envRW, nil),
		RO:           e.paths(envRO, defaultRO()),
		Devices:      e.paths("SHELLCTL_LANDLOCK_RW_DEV_PATHS", defaultDevices()),
		PTYs:         e.ptys("SHELLCTL_LANDLOCK_PTYS"),
		ConnectPorts: e.ports("SHELLCTL_LANDLOCK_CONNECT_PORTS"),
		BindPorts:    e.ports("SHELLCTL_LANDLOCK_BIND_PORTS"),
		Limits: Limits{
			NoFile: e.limit("SHELLCTL_RLIMIT_NOFILE"),
			NProc:  e.limit("SHELLCTL_RLIMIT_NPROC"),
			FSize:  e.limit("SHELLCTL_RLIMIT_FSIZE"),
			AS:     e.limit("SHELLCTL_RLIMIT_AS"),
			CPU:    e.limit("SHELLCTL_RLIMIT_CPU"),
		},
	}
	// Without path isolation a job behaves as if started by hand, sudo included;
	// both layers would take that away, so they have to be asked for.
	p.Seccomp = e.exactly("SHELLCTL_SECCOMP", p.Paths)
	p.DropCaps = e.exactly("SHELLCTL_DROP_CAPABILITIES", p.Paths)
	return p, e.notes, errors.Join(e.errs...)
}

// environ reads variables and keeps what is wrong with them.
type environ struct {
	lookup func(string) (string, bool)
	notes  []string
	errs   []error
}

func (e *environ) fail(name, format string, args ...any) {
	e.errs = append(e.errs, fmt.Errorf("read %s: %s", name, fmt.Sprintf(format, args...)))
}

// exactly is true only for the text "true", as in the system this replaces: a
// switch that is set to anything else, also to nothing, is off.
func (e *environ) exactly(name string, unset bool) bool {
	v, ok := e.lookup(name)
	if !ok {
		return unset
	}
	return v == "true"
}

func (e *environ) paths(name string, unset []string) []string {
	v, ok := e.lookup(name)
	if !ok {
		return unset
	}
	list := []string{}
	for _, path := range fields(v) {
		if !filepath.IsAbs(path) {
			e.fail(name, "path %q is not absolute", path)
			continue
		}
		if _, err := os.Stat(path); err != nil {
			e.notes = append(e.notes, fmt.Sprintf("%s: skip %v", name, err))
		}
		list = append(list, filepath.Clean(path)) // it may appear before a job starts
	}
	return list
}

func (e *environ) ptys(name string) PTYs {
	v, _ := e.lookup(name)
	switch p := PTYs(strings.TrimSpace(v)); p {
	case "":
		return PTYsOwn
	case PTYsOwn, PTYsAll:
		return p
	}
	e.fail(name, "%q is neither %q nor %q", v, PTYsOwn, PTYsAll)
	return PTYsOwn
}

func (e *environ) ports(name string) []uint16 {
	v, ok := e.lookup(name)
	if !ok {
		return nil
	}
	ports := []uint16{}
	for _, f := range fields(v) {
		n, err := strconv.ParseUint(f, 10, 16)
		if err != nil {
			e.fail(name, "%q is not a port", f)
			continue
		}
		ports = append(ports, uint16(n))
	}
	return ports
}

func (e *environ) limit(name string) uint64 {
	v, ok := e.lookup(name)
	if v = strings.TrimSpace(v); !ok || v == "" {
		return 0
	}
	n, err := strconv.ParseUint(v, 10, 63)
	if err != nil || n == 0 {
		e.fail(name, "%q is not a positive number", v)
	}
	return n
}

// fields splits a comma list and drops blanks and empty entries.
func fields(list string) []string {
	var out []string
	for f := range strings.SplitSeq(list, ",") {
		if f = strings.TrimSpace(f); f != "" {
			out = append(out, f)
		}
	}
	return out
}
