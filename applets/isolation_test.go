package applets_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"shellctl/pkg/client"
)

// systemPath finds only programs that every user may execute.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// request is a script on the system's search path.
func request(script, mode string) client.RunRequest {
	return client.RunRequest{Script: script, Mode: mode, Env: map[string]string{"PATH": systemPath}}
}

const notConfined = "apply Landlock filesystem isolation: "

// wantRefused runs a job in both modes: it must end with 126 and the reason, and
// its script must not have run.
func wantRefused(t *testing.T, s *testServer, reason string) {
	t.Helper()
	for _, mode := range []string{"pty", "stdio"} {
		res := s.run("echo ran > "+s.home+"/ran; echo ran", mode)
		wantExit(t, res, "exited", 126)
		said := res.Output
		if mode == "stdio" {
			b, err := os.ReadFile(filepath.Join(filepath.Dir(res.OutputPath), "stderr.log"))
			if err != nil {
				t.Fatal(err)
			}
			said = string(b)
		}
		if !strings.Contains(said, notConfined) || !strings.Contains(said, reason) {
			t.Errorf("%s job said %q, want %q and %q", mode, said, notConfined, reason)
		}
	}
	if _, err := os.Stat(s.home + "/ran"); err == nil {
		t.Error("a script ran unconfined")
	}
	if in := s.info().Isolation; !in.Refusing {
		t.Errorf("info does not tell that jobs are refused: %+v", in.Report)
	}
	if !strings.Contains(s.logged(), "level=WARN msg=\"isolation: ") {
		t.Errorf("the log does not warn:\n%s", s.logged())
	}
}

// TestFailsClosed has rules that can not be made.
func TestFailsClosed(t *testing.T) {
	for variable, path := range map[string]string{
		"SHELLCTL_LANDLOCK_RO_PATHS":     "/etc/passwd",
		"SHELLCTL_LANDLOCK_RW_PATHS":     "/etc/passwd",
		"SHELLCTL_LANDLOCK_RW_DEV_PATHS": "/proc/self/ns/mnt",
	} {
		s := startServer(t, serverOptions{uid: plainUser, env: []string{variable + "=" + path}})
		wantRefused(t, s, path)
	}
}

// compiled builds a program of testdata/isolation where every user can run it.
func compiled(t testing.TB, name string) string {
	t.Helper()
	dir := tempDir(t, 0)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("gcc", "-Wall", "-Werror", "-o", dir+"/"+name, "../testdata/isolation/"+name+".c").CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return dir + "/" + name
}

// TestWithoutLandlock starts servers where the kernel's calls for Landlock are
// refused, as by a kernel without it and by a container's filter.
func TestWithoutLandlock(t *testing.T) {
	without := compiled(t, "without_landlock")
	for _, tt := range []struct{ calls, errno, reason string }{
		{"all", "38", "the kernel has no Landlock"},
		{"all", "1", "blocked"},
		{"all", "95", "not among the security modules"},
	} {
		opt := serverOptions{uid: plainUser, wrap: []string{without, tt.calls, tt.errno}}
		s := startServer(t, opt)
		wantExit(t, s.run("touch "+s.home+"/x && ls / > /dev/null", ""), "exited", 0)
		in := s.info().Isolation
		if l := in.Layer("paths"); in.ABI != 0 || l.State != "missing" || !strings.Contains(l.Detail, tt.reason) {
			t.Errorf("errno %s: reported as %+v", tt.errno, in.Report)
		}
		if n := strings.Count(s.logged(), tt.reason); n != 1 || !strings.Contains(s.logged(), "level=WARN msg=\"isolation: ") {
			t.Errorf("errno %s: %d warnings\n%s", tt.errno, n, s.logged())
		}
		opt.env = []string{"SHELLCTL_REQUIRE_PATH_ISOLATION=true"}
		wantRefused(t, startServer(t, opt), tt.reason)
	}
}

// A kernel that has Landlock and will not apply it is never run with.
func TestLandlockNotApplicable(t *testing.T) {
	s := startServer(t, serverOptions{uid: plainUser, wrap: []string{compiled(t, "without_landlock"), "restrict", "1"}})
	res := s.run("echo ran > "+s.home+"/ran", "")
	wantExit(t, res, "exited", 126)
	if _, err := os.Stat(s.home + "/ran"); err == nil || !strings.Contains(res.Output, notConfined) {
		t.Errorf("ran (%v) or said %q", err, res.Output)
	}
}
