package applets_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

type diagnosis struct {
	OK     bool
	Kernel string
	Checks []struct{ Name, State, Detail, Advice string }
}

// state returns what was found by a check.
func (d diagnosis) state(name string) (state, detail string) {
	for _, c := range d.Checks {
		if c.Name == name {
			return c.State, c.Detail
		}
	}
	return "none", ""
}

// failed lists the checks that failed.
func (d diagnosis) failed() []string {
	var names []string
	for _, c := range d.Checks {
		if c.State == "fail" {
			names = append(names, c.Name)
		}
	}
	return names
}

// patient is where a doctor looks.
type patient struct {
	uid  uint32
	home string   // empty: a new one
	env  []string // on top of a small environment
	wrap []string
	args []string
}

// runDoctor returns the exit code and the output.
func runDoctor(t *testing.T, p patient) (code int, out string) {
	t.Helper()
	if p.home == "" {
		p.home = tempDir(t, p.uid)
	}
	argv := append(append(slices.Clone(p.wrap), program(t, "shellctl"), "doctor"), p.args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"HOME=" + p.home, "PATH=" + systemPath, "GORACE=atexit_sleep_ms=0"}, p.env...)
	if p.uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.uid, Gid: p.uid}}
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if stderr.Len() > 0 {
		t.Errorf("doctor said %q", stderr.String())
	}
	return cmd.ProcessState.ExitCode(), string(b)
}

func examine(t *testing.T, p patient) (int, diagnosis) {
	t.Helper()
	p.args = append(p.args, "--json")
	code, out := runDoctor(t, p)
	var d diagnosis
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("doctor --json printed %q: %v", out, err)
	}
	if d.OK != (code == 0) {
		t.Errorf("exit code %d, and ok is %v", code, d.OK)
	}
	return code, d
}

// TestDoctor is on this machine, which must be fit for everything else here.
func TestDoctor(t *testing.T) {
	needRoot(t)
	for _, uid := range []uint32{plainUser, 0} {
		state := tempDir(t, uid) + "/new/deep"
		code, d := examine(t, patient{uid: uid, env: []string{"SHELLCTL_AUTH_TOKEN=x"}, args: []string{"-state-dir", state}})
		if code != 0 || d.Kernel == "" {
			t.Errorf("user %d: %d, failed %v: %+v", uid, code, d.failed(), d)
		}
		for _, name := range []string{
			"settings", "landlock", "paths", "refer", "truncate", "ioctl_dev", "signals", "abstract_sockets",
			"seccomp", "ptys", "job", "home", "shell", "terminal", "subreaper", "space", "state", "clock", "token",
		} {
			if got, detail := d.state(name); got != "ok" {
				t.Errorf("user %d: %s is %s: %s", uid, name, got, detail)
			}
		}
		for _, c := range d.Checks {
			if (c.State == "warn" || c.State == "fail") && (c.Detail == "" || c.Advice == "") {
				t.Errorf("user %d: %+v does not say what to do", uid, c)
			}
		}
		if _, err := os.Stat(state); err == nil {
			t.Errorf("doctor made %s", state)
		}
	}
}

// TestDoctorFinds spoils one thing at a time.
func TestDoctorFinds(t *testing.T) {
	needRoot(t)
	closed := tempDir(t, 0)
	if err := os.Chmod(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	without := compiled(t, "without_landlock")
	for _, tt := range []struct {
		name string
		p    patient
		want []string // checks that fail
	}{
		{"no Landlock", patient{wrap: []string{without, "all", "38"}}, []string{"landlock", "paths"}},
		{"required", patient{wrap: []string{without, "all", "38"}, env: []string{"SHELLCTL_REQUIRE_PATH_ISOLATION=true"}}, []string{"landlock", "isolation", "paths", "job", "home"}},
		{"not applicable", patient{wrap: []string{without, "restrict", "1"}}, []string{"isolation", "job", "home"}},
		{"switched off", patient{wrap: []string{without, "all", "38"}, env: []string{isolationOff}}, nil},
		{"file in a list", patient{env: []string{"SHELLCTL_LANDLOCK_RO_PATHS=/etc/passwd"}}, []string{"landlock", "isolation", "job", "home"}},
		{"no sh for a job", patient{env: []string{"SHELLCTL_LANDLOCK_RO_PATHS=/etc"}}, []string{"job"}},
		{"bad setting", patient{env: []string{"SHELLCTL_LANDLOCK_PTYS=some"}}, []string{"settings"}},
		{"no sh", patient{env: []string{"PATH=/nowhere"}}, []string{"job", "shell", "subreaper"}},
		{"HOME is /", patient{home: "/"}, []string{"home"}},
		{"HOME is relative", patient{home: "here"}, []string{"home"}},
		{"closed state", patient{args: []string{"--state-dir", closed + "/s"}}, []string{"state"}},
		{"state is a file", patient{args: []string{"--state-dir", "/etc/passwd/s"}}, []string{"state"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := tt.p
			p.uid = plainUser
			if len(p.args) == 0 {
				p.args = []string{"--state-dir", tempDir(t, plainUser)}
			}
			code, d := examine(t, p)
			if got := d.failed(); !slices.Equal(got, tt.want) || (code == 1) != (len(tt.want) > 0) {
				t.Errorf("exit code %d, failed %q, want %q: %+v", code, got, tt.want, d.Checks)
			}
		})
	}
}

func TestDoctorTable(t *testing.T) {
	needRoot(t)
	code, out := runDoctor(t, patient{uid: plainUser})
	for _, want := range []string{"CHECK ", "\nlandlock          ok    ABI ", "\nstate             warn  ", " lies in HOME", "-> give a --state-dir outside", "\nJobs can run safely here.\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in\n%s", code, want, out)
		}
	}
	if code, out := runDoctor(t, patient{uid: plainUser, home: "/"}); code != 1 || !strings.HasSuffix(out, "\nJobs could not run safely here.\n") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}
