package isolation

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func lookupIn(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := env[name]; return v, ok }
}

func TestFromEnvironDefaults(t *testing.T) {
	p := defaults(t)
	if !p.Paths || p.Require || !p.Seccomp || !p.DropCaps || p.PTYs != PTYsOwn {
		t.Errorf("defaults = %+v", p)
	}
	if p.ConnectPorts != nil || p.BindPorts != nil || !p.Limits.none() || len(p.RW) != 0 {
		t.Errorf("defaults limit %+v", p)
	}
	if !slices.Contains(p.RO, "/usr") || !slices.Contains(p.Devices, "/dev/null") {
		t.Errorf("default lists = %v, %v", p.RO, p.Devices)
	}
}

// Any text but "true" is off, and takes the layers along that follow it.
func TestFromEnvironSwitch(t *testing.T) {
	const name = "SHELLCTL_ENABLE_PATH_ISOLATION"
	for _, v := range []string{"", "false", "TRUE", "1", " true", "yes"} {
		p, _, err := FromEnviron(lookupIn(map[string]string{name: v}))
		if err != nil || p.Paths || p.Seccomp || p.DropCaps {
			t.Errorf("%s=%q gives %+v, %v, want off", name, v, p, err)
		}
	}
	p, _, err := FromEnviron(lookupIn(map[string]string{name: "false", "SHELLCTL_SECCOMP": "true"}))
	if err != nil || p.Paths || !p.Seccomp {
		t.Errorf("seccomp alone = %+v, %v", p, err)
	}
}

func TestFromEnvironLists(t *testing.T) {
	p, notes, err := FromEnviron(lookupIn(map[string]string{
		"SHELLCTL_LANDLOCK_RW_PATHS":      " /tmp , ,/nonexistent/x/,",
		"SHELLCTL_LANDLOCK_RO_PATHS":      "",
		"SHELLCTL_LANDLOCK_RW_DEV_PATHS":  "/dev/null",
		"SHELLCTL_LANDLOCK_PTYS":          " all ",
		"SHELLCTL_LANDLOCK_CONNECT_PORTS": "3128, 443",
		"SHELLCTL_LANDLOCK_BIND_PORTS":    "",
		"SHELLCTL_RLIMIT_NOFILE":          " 64 ",
		"SHELLCTL_RLIMIT_CPU":             "",
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := Policy{
		Paths: true, Seccomp: true, DropCaps: true, PTYs: PTYsAll,
		RW: []string{"/tmp", "/nonexistent/x"}, RO: []string{}, Devices: []string{"/dev/null"},
		ConnectPorts: []uint16{3128, 443}, BindPorts: []uint16{}, Limits: Limits{NoFile: 64},
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("policy = %+v, want %+v", p, want)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "SHELLCTL_LANDLOCK_RW_PATHS") ||
		!strings.Contains(notes[0], "/nonexistent/x") {
		t.Errorf("notes = %q, want the missing path", notes)
	}
	b, err := json.Marshal(p)
	must(t, err)
	var back Policy
	must(t, json.Unmarshal(b, &back))
	if !reflect.DeepEqual(back, p) { // nil and empty ports differ in meaning
		t.Errorf("through JSON = %+v, want %+v", back, p)
	}
}

func TestFromEnvironErrors(t *testing.T) {
	for name, value := range map[string]string{
		"SHELLCTL_LANDLOCK_RW_PATHS":      "relative",
		"SHELLCTL_LANDLOCK_RO_PATHS":      "/usr,~/x",
		"SHELLCTL_LANDLOCK_RW_DEV_PATHS":  "null",
		"SHELLCTL_LANDLOCK_PTYS":          "none",
		"SHELLCTL_LANDLOCK_CONNECT_PORTS": "65536",
		"SHELLCTL_LANDLOCK_BIND_PORTS":    "http",
		"SHELLCTL_RLIMIT_NOFILE":          "0",
		"SHELLCTL_RLIMIT_NPROC":           "-1",
		"SHELLCTL_RLIMIT_FSIZE":           "1G",
		"SHELLCTL_RLIMIT_AS":              "unlimited",
		"SHELLCTL_RLIMIT_CPU":             "1.5",
	} {
		_, _, err := FromEnviron(lookupIn(map[string]string{name: value}))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%q gives error %v, want one that names it", name, value, err)
		}
	}
}

func TestMayWrite(t *testing.T) {
	for path, want := range map[string]bool{
		"/": false, "/usr": false, "/usr/local": false, "/usr/local/bin": false, "/etc/x": false,
		"/proc/self": false, "/dev/shm": false, "/run/user/1000": false, "/home": false,
		"/var": false, "/var/lib": false, "/opt": false, "/usr/src": false,
		"/home/a": true, "/root": true, "/tmp": true, "/var/tmp": true, "/var/lib/a": true,
		"/workspace": true, "/usr/src/app": true, "/opt/app": true, "/etcetera": true, "/usr2": true,
	} {
		if got := mayWrite(path); got != want {
			t.Errorf("mayWrite(%q) = %v, want %v", path, got, want)
		}
	}
}
