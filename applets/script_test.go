package applets_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScript plays the files in testdata/script. Each is a session at a shell
// with the product in PATH and a server of its own, which SHELLCTL_BASE_URL
// names; STATE is its state directory.
func TestScript(t *testing.T) {
	bin := filepath.Dir(program(t, "shellctl"))
	testscript.Run(t, testscript.Params{
		Dir:                 "../testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			s := startServer(t, serverOptions{})
			env.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector would wait a second
			env.Setenv("SHELLCTL_BASE_URL", s.url)
			env.Setenv("SHELLCTL_AUTH_TOKEN", s.token)
			env.Setenv("STATE", s.state)
			return nil
		},
	})
}
