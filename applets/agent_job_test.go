package applets_test

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shellctl/pkg/client"
	"shellctl/testdata/fakestub"
)

// TestAgentInJob calls the agent's control plane from within real jobs, as an
// agent does: confined, in both modes, with the address and token in the
// environment of the job.
func TestAgentInJob(t *testing.T) {
	stub := fakestub.Start()
	defer stub.Close()
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	w, err := z.Create("SKILL.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("# How to\n")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	stub.AddSkill("x", archive.Bytes())

	bin := filepath.Dir(program(t, "dify-agent"))
	s := startServer(t, serverOptions{uid: plainUser, env: []string{
		"SHELLCTL_LANDLOCK_RO_PATHS=/usr,/bin,/sbin,/lib,/lib64,/etc,/proc," + bin,
	}})
	env := map[string]string{"PATH": bin + ":" + os.Getenv("PATH"), "GORACE": "atexit_sleep_ms=0"}
	for _, e := range stub.Environ() {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	for _, mode := range bothModes {
		res := s.runWith(client.RunRequest{Mode: mode, Env: env, Script: "set -eu; dify-agent config skills pull 'x'; touch /opt/x 2>/dev/null || echo confined"})
		wantExit(t, res, "exited", 0)
		if want := ".dify_conf/skills/x\n# How to\nconfined\n"; res.Output != want {
			t.Errorf("%s: output %q, want %q", mode, res.Output, want)
		}
		if b, err := os.ReadFile(filepath.Join(s.home, ".dify_conf/skills/x/SKILL.md")); err != nil || string(b) != "# How to\n" {
			t.Errorf("%s: the skill is %q, %v", mode, b, err)
		}
		if b, err := os.ReadFile(res.OutputPath); err != nil || bytes.Contains(b, []byte(env["DIFY_AGENT_STUB_AUTH_JWE"])) {
			t.Errorf("%s: the log shows the token, %v", mode, err)
		}
	}
	// A failure is the exit of the job, and nothing of it on stdout.
	res := s.runWith(client.RunRequest{Mode: "stdio", Env: env, Script: "set -eu; dify-agent config skills pull 'nowhere'; echo not reached"})
	if *res.ExitCode != 1 || res.Output != "" {
		t.Errorf("a missing skill: exit %d, %q", *res.ExitCode, res.Output)
	}
	for _, p := range stub.TakeProblems() {
		t.Errorf("the stub complains: %s", p)
	}
}
