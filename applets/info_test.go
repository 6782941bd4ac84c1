package applets_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"shellctl/pkg/api"
)

// info asks a server about itself.
func (s *testServer) info() api.Info {
	s.t.Helper()
	status, body := s.call(http.MethodGet, "/v1/info", "")
	var in api.Info
	if err := json.Unmarshal([]byte(body), &in); status != http.StatusOK || err != nil {
		s.t.Fatalf("GET /v1/info = %d %s (%v)", status, body, err)
	}
	return in
}

func TestInfo(t *testing.T) {
	s := startServer(t, serverOptions{uid: plainUser, env: []string{
		"SHELLCTL_LANDLOCK_RW_PATHS=/not/there", "SHELLCTL_MAX_OUTPUT_BYTES=12345",
	}})
	in := s.info()
	if in.Version == "" || in.Kernel == "" || in.StateDir != s.state || !in.Authentication || in.Limits.MaxOutputBytes != 12345 {
		t.Errorf("info = %+v", in)
	}
	iso := in.Isolation
	if iso.KernelABI < 6 || iso.ABI != iso.KernelABI || iso.Refusing || !iso.StateInHome {
		t.Errorf("isolation = %+v", iso)
	}
	for _, name := range []string{"paths", "refer", "truncate", "ioctl_dev", "signals", "abstract_sockets", "seccomp", "capabilities"} {
		if l := iso.Layer(name); l.State != "enforced" {
			t.Errorf("layer %+v, want enforced", l)
		}
	}
	for _, l := range iso.Missing {
		if l.Detail == "" {
			t.Errorf("%s is missing without a reason", l.Name)
		}
	}
	if len(iso.Skipped) != 1 || !strings.Contains(iso.Skipped[0], "/not/there") || !strings.Contains(s.logged(), "/not/there") {
		t.Errorf("skipped = %q; log:\n%s", iso.Skipped, s.logged())
	}
	if n := strings.Count(s.logged(), "landlock ABI"); n != 1 {
		t.Errorf("%d lines about isolation in the log", n)
	}
	if _, body := s.call(http.MethodGet, "/v1/info", ""); strings.Contains(body, testToken) {
		t.Errorf("the token is in %s", body)
	}
	s.token = "wrong"
	s.wantError(http.MethodGet, "/v1/info", "", http.StatusUnauthorized, "unauthorized")
	s.token = testToken
}

// Info must not claim what was switched off.
func TestInfoOff(t *testing.T) {
	s := startServer(t, serverOptions{uid: plainUser, noToken: true, env: []string{"SHELLCTL_ENABLE_PATH_ISOLATION=false"}})
	in := s.info()
	if in.Authentication || in.Isolation.ABI != 0 || len(in.Isolation.Missing) != 0 {
		t.Errorf("info = %+v", in)
	}
	for _, l := range in.Isolation.Layers {
		if l.Name != "rlimits" && l.State != "off" {
			t.Errorf("%+v, want off", l)
		}
	}
}

// A private devpts is reported where a job really has one, and only there.
func TestInfoTerminals(t *testing.T) {
	needRoot(t)
	for uid, want := range map[uint32]string{0: "private devpts", plainUser: "own: "} {
		s := startServer(t, serverOptions{uid: uid})
		if l := s.info().Isolation.Layer("ptys"); l.State != "enforced" || !strings.HasPrefix(l.Detail, want) {
			t.Errorf("user %d: %+v, want %s", uid, l, want)
		}
		got := s.runWith(request("script -qec 'echo in' /dev/null", "stdio"))
		if private := strings.Contains(got.Output, "in\n") || strings.Contains(got.Output, "in\r\n"); private != (uid == 0) {
			t.Errorf("user %d: script printed %q", uid, got.Output)
		}
	}
}

func TestWarnsWithoutToken(t *testing.T) {
	const warning = "no token is configured"
	for _, tt := range []struct {
		listen  string
		noToken bool
		want    bool
	}{
		{"0.0.0.0:0", true, true},
		{"0.0.0.0:0", false, false},
		{"localhost:0", true, false},
	} {
		s := startServer(t, serverOptions{noToken: tt.noToken, args: []string{"--listen", tt.listen}})
		if got := strings.Contains(s.logged(), warning); got != tt.want {
			t.Errorf("%s, token %v: warned %v, want %v", tt.listen, !tt.noToken, got, tt.want)
		}
	}
}

// A token given as a flag works and shows nowhere.
func TestTokenFlagIsHidden(t *testing.T) {
	for _, args := range [][]string{{"--token", "s3cret-flag"}, {"-auth-token=s3cret-flag"}} {
		s := startServer(t, serverOptions{args: args})
		s.token = "s3cret-flag"
		s.info()
		cmdline, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(s.cmd.Process.Pid), "cmdline"))
		if err != nil || strings.Contains(string(cmdline), "s3cret") || !strings.Contains(string(cmdline), "token") {
			t.Errorf("%v: command line %q (%v)", args, cmdline, err)
		}
		s.stop(syscall.SIGTERM)
	}
}
