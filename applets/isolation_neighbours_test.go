package applets_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"shellctl/pkg/client"
)

// TestControlSockets has jobs reach for the socket by which a later server finds
// a runner. The runner turns them away by itself: before ABI 9 Landlock does not
// keep anybody from connecting, and in HOME not even from looking.
func TestControlSockets(t *testing.T) {
	needRoot(t)
	attempts := []attempt{
		{name: "drive another job", script: `try control $JOB/control.sock`},
		{name: "drive the own runner", script: `try control ${0%/*}/control.sock`},
		{name: "pose as the server", script: `try lock $STATE/server.lock`},
	}
	for _, env := range [][]string{nil, {isolationOff}, {"SHELLCTL_LANDLOCK_RW_PATHS=/tmp"}} {
		s := newSite(t, plainUser, env...)
		failed := s.try(attempts, "stdio")
		for _, a := range attempts {
			if out := failed[a.name]; out != "turned away" && out != eacces && out != "Resource temporarily unavailable" {
				t.Errorf("%v: %s: %q", env, a.name, out)
			}
		}
		s.wantUntouched()
	}
}

// A socket file outside is out of reach from ABI 9 on, and the report says so.
func TestSocketFiles(t *testing.T) {
	needRoot(t)
	s := newSite(t, plainUser)
	failed := s.try([]attempt{{name: "connect", script: `try connect $SOCKET`}}, "stdio")
	want := ""
	if s.info().Isolation.Layer("path_sockets").State == "enforced" {
		want = eacces
	}
	if failed["connect"] != want {
		t.Errorf("connect to a socket file: %q, want %q", failed["connect"], want)
	}
}

// TestTypesIntoNoTerminal is about TIOCSTI, which types for somebody else. The
// kernel may refuse it by itself, with another error.
func TestTypesIntoNoTerminal(t *testing.T) {
	needRoot(t)
	b, err := os.ReadFile("/proc/sys/dev/tty/legacy_tiocsti")
	refused := err == nil && strings.TrimSpace(string(b)) == "0"
	list := []attempt{{name: "type", script: `try type_into /dev/tty`}}
	if got := newSite(t, plainUser).try(list, "pty")["type"]; got != eperm {
		t.Errorf("TIOCSTI: %q, want %q", got, eperm)
	}
	if got := newSite(t, plainUser, isolationOff).try(list, "pty")["type"]; (got == "") == refused || got == eperm {
		t.Errorf("TIOCSTI without isolation: %q, refused by the kernel %v", got, refused)
	}
}

// killers is a user of its own: without isolation the test kills all it has.
const killers = plainUser + 7

// TestKillsEverything has a job kill whatever it may.
func TestKillsEverything(t *testing.T) {
	needRoot(t)
	const script = "trap '' TERM; kill -TERM -1; kill -KILL -1"
	s := newSite(t, killers)
	s.run(script, "stdio")
	s.wantUntouched()
	s.cleanup() // it would be killed with the other one

	off := newSite(t, killers, isolationOff)
	// What it answers depends on which signal came first.
	_, _ = off.Run(context.Background(), client.RunRequest{Script: script, WaitRequest: client.WaitRequest{Timeout: 30}})
	<-off.gone // by the job alone
}

// TestSecrets looks for the token and the secrets of another job wherever a job
// can look. A job without isolation sees the environment of its neighbours, but
// the token it finds nowhere.
func TestSecrets(t *testing.T) {
	needRoot(t)
	const script = `for f in /proc/[0-9]*; do
		tr '\0' '\n' < $f/cmdline; tr '\0' '\n' < $f/environ
	done 2>/dev/null; env; cat /proc/$SERVER/cmdline /proc/$RUNNER/cmdline | tr '\0' ' '; echo; echo all read`
	for _, env := range []string{"A=1", isolationOff} {
		s := newSite(t, plainUser, env, "PASSING=through")
		for _, mode := range []string{"stdio", "pty"} {
			res := s.runWith(client.RunRequest{Script: script, Mode: mode, Env: s.env})
			if !strings.Contains(res.Output, "all read") || !strings.Contains(res.Output, "PASSING=through") {
				t.Fatalf("%s: the job read too little: %q", env, res.Output)
			}
			for _, secret := range []string{testToken, "s3cret-script"} {
				if strings.Contains(res.Output, secret) {
					t.Errorf("%s, %s: a job found %s", env, mode, secret)
				}
			}
			if found := strings.Contains(res.Output, "s3cret-env"); found != (env == isolationOff) {
				t.Errorf("%s, %s: a job found its neighbour's environment: %v", env, mode, found)
			}
		}
		if log := s.logged(); strings.Contains(log, "s3cret") || strings.Contains(log, testToken) {
			t.Errorf("a secret is in the log:\n%s", log)
		}
	}
}

// TestInherits looks at what a script starts with: three descriptors, no way to
// more privileges, no core.
func TestInherits(t *testing.T) {
	// A descriptor that is left open to the server, of a file no job may read.
	secret := tempDir(t, plainUser) + "/secret"
	own(t, plainUser, os.WriteFile(secret, nil, 0o600), secret)
	s := startServer(t, serverOptions{uid: plainUser, wrap: []string{"/bin/sh", "-c", `exec 7<>` + secret + `; exec "$@"`, "sh"}})
	for _, mode := range []string{"stdio", "pty"} {
		res := s.runWith(request(`exec python3 -c "
import os, resource
print(sorted(int(f) for f in os.listdir('/proc/self/fd'))[:-1], resource.getrlimit(resource.RLIMIT_CORE))
print([l.split()[1] for l in open('/proc/self/status') if l.startswith(('NoNewPrivs', 'Seccomp:', 'CapEff'))])"`, mode))
		want := "[0, 1, 2] (0, 0)\n['0000000000000000', '1', '2']\n"
		if res.Output != want {
			t.Errorf("%s: a script starts with %q, want %q", mode, res.Output, want)
		}
	}
}

// TestJobsDoNotWiden has a request name everything that could open more.
func TestJobsDoNotWiden(t *testing.T) {
	needRoot(t)
	s := newSite(t, plainUser)
	root := filepath.Join(s.path("home"), "root") // a link to /
	own(t, plainUser, os.Symlink("/", root), s.path("home"))
	touch := fmt.Sprintf("(touch %[1]s/out/new; touch %[1]s/state/new; mkdir /dev/shm/../../opt/new) 2>&1; ls %[1]s/other; echo done", s.root)
	for _, req := range []client.RunRequest{
		{Env: map[string]string{"SHELLCTL_ENABLE_PATH_ISOLATION": "false", "SHELLCTL_REQUIRE_PATH_ISOLATION": "false"}},
		{Env: map[string]string{"SHELLCTL_LANDLOCK_RW_PATHS": "/", "SHELLCTL_LANDLOCK_RO_PATHS": "/", "SHELLCTL_LANDLOCK_RW_DEV_PATHS": "/"}},
		{Env: map[string]string{"SHELLCTL_LANDLOCK_PTYS": "all", "SHELLCTL_SECCOMP": "false", "SHELLCTL_DROP_CAPABILITIES": "false"}},
		{Env: map[string]string{"HOME": "/"}},
		{Env: map[string]string{"HOME": ""}},
		{Env: map[string]string{"HOME": root}},
		{Env: map[string]string{"HOME": "//usr/.."}},
		{Env: map[string]string{"TMPDIR": s.path("out")}},
		{Cwd: "/"},
		{Cwd: root},
		{Cwd: "/usr"},
		{Cwd: s.path("home/../../")},
		{Cwd: s.state},
		{Cwd: filepath.Dir(s.env["JOB"])},
	} {
		req.Script = touch
		res := s.runWith(req)
		if !strings.Contains(res.Output, "done") {
			t.Errorf("%+v: %q", req, res.Output)
		}
		for _, made := range []string{s.path("out/new"), s.path("state/new"), "/opt/new"} {
			if err := os.Remove(made); err == nil {
				t.Errorf("env %v, cwd %q: a job made %s", req.Env, req.Cwd, made)
			}
		}
		if strings.Contains(res.Output, "secret") {
			t.Errorf("env %v, cwd %q: a job listed another home", req.Env, req.Cwd)
		}
	}
}

// TestLayouts: a HOME and a workspace beside it are both writable; with the cwd
// in HOME the workspace is not.
func TestLayouts(t *testing.T) {
	needRoot(t)
	s := newSite(t, plainUser)
	for cwd, want := range map[string]string{s.path("out"): "home out ", s.path("home/sub"): "home "} {
		res := s.runWith(client.RunRequest{Cwd: cwd, Script: fmt.Sprintf(
			`for d in home out other; do (: > %s/$d/layout) 2>/dev/null && printf "$d "; done; :`, s.root)})
		if res.Output != want {
			t.Errorf("cwd %s: writable are %q, want %q", cwd, res.Output, want)
		}
	}
}

// TestDeletesItsPlace has a job take away what it stands on; the next job gets a
// clear answer, and the server goes on.
func TestDeletesItsPlace(t *testing.T) {
	needRoot(t)
	s := newSite(t, plainUser)
	ws := s.path("home/ws")
	for _, ruin := range []string{`rmdir "$PWD"`, `chmod 0 "$PWD"`} {
		own(t, plainUser, os.Mkdir(ws, 0o755), ws)
		res := s.runWith(client.RunRequest{Script: ruin + " && echo ruined", Cwd: ws})
		if res.Output != "ruined\n" {
			t.Errorf("%s: %q", ruin, res.Output)
		}
		s.wantError("POST", "/v1/jobs/run", fmt.Sprintf(`{"script":"echo","cwd":%q}`, ws), 400, "invalid_cwd")
		if err := os.Remove(ws); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	res := s.run("echo fine", "")
	wantExit(t, res, "exited", 0)
	if _, err := os.Stat(s.path("home")); err != nil || s.cmd.Process.Signal(syscall.Signal(0)) != nil {
		t.Errorf("the server or its HOME is gone: %v", err)
	}
}
