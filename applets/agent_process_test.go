package applets_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/landlock-lsm/go-landlock/landlock"

	"shellctl/testdata/fakestub"
)

// agentCommand is the product as dify-agent, in dir, with the stub of env.
func agentCommand(t *testing.T, dir string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Args[0] = "/any/where/dify-agent"
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), env...), "GORACE=atexit_sleep_ms=0")
	return cmd
}

// TestAgentInterrupted ends commands in the middle of a transfer: exit code 1,
// nothing on stdout, and no half file.
func TestAgentInterrupted(t *testing.T) {
	for _, args := range [][]string{
		{"config", "files", "pull", "f", "--to", "."},
		{"config", "skills", "pull", "f", "--to", "."},
		{"file", "download", "tool_file", "r", "--to", "."},
		{"knowledge", "spaces"},
	} {
		for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
			started := make(chan struct{}, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/agent-stub/files/download-request" {
					fmt.Fprintf(w, `{"filename":"f","size":1000,"download_url":"http://%s/dl"}`, r.Host)
					return
				}
				io.Copy(io.Discard, r.Body) // net/http notices a gone client only then
				w.Write([]byte("half"))
				http.NewResponseController(w).Flush()
				started <- struct{}{}
				<-r.Context().Done()
			}))
			dir := t.TempDir()
			var stdout, stderr bytes.Buffer
			cmd := agentCommand(t, dir, []string{"DIFY_AGENT_STUB_API_BASE_URL=" + server.URL, "DIFY_AGENT_STUB_AUTH_JWE=t"}, args...)
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-started
			cmd.Process.Signal(sig)
			cmd.Wait()
			server.Close()
			entries, err := os.ReadDir(dir)
			if cmd.ProcessState.ExitCode() != 1 || stdout.Len() > 0 || len(entries) > 0 || err != nil ||
				strings.Count(stderr.String(), "\n") != 1 || !strings.HasPrefix(stderr.String(), "dify-agent: ") {
				t.Errorf("%v after %v: %v, stdout %q, stderr %q, left %v",
					args, sig, cmd.ProcessState, &stdout, &stderr, entries)
			}
		}
	}
}

// TestLandlocked is run by TestAgentUnderLandlock: it restricts itself as a job
// is restricted and becomes dify-agent.
func TestLandlocked(t *testing.T) {
	args := os.Getenv("LANDLOCKED_ARGS")
	if args == "" {
		t.Skip("run by TestAgentUnderLandlock")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	err = landlock.V5.BestEffort().RestrictPaths(
		landlock.RODirs("/usr", "/etc", "/proc", filepath.Dir(self)).IgnoreIfMissing(),
		landlock.RWFiles("/dev/null"),
		landlock.RWDirs(cwd).WithRefer(),
	)
	if err != nil {
		t.Fatal(err)
	}
	os.Unsetenv("LANDLOCKED_ARGS")
	os.Setenv("TMPDIR", cwd)
	t.Fatal(syscall.Exec(self, append([]string{"dify-agent"}, strings.Split(args, " ")...), os.Environ()))
}

// TestAgentUnderLandlock runs commands where only the working directory can be
// written.
func TestAgentUnderLandlock(t *testing.T) {
	fake := fakestub.Start()
	defer fake.Close()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "s"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "s", "SKILL.md"), []byte("text\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, run := range []struct{ args, want string }{
		{"connect", "connected "},
		{"config skills push s", `"name":"s"`},
		{"config skills pull s", ".dify_conf/skills/s\ntext\n"},
		{"config skills pull s", ".dify_conf/skills/s\ntext\n"}, // over the first
		{"config files push s/SKILL.md", `"name":"SKILL.md"`},
		{"config files pull", ".dify_conf/files/SKILL.md\n"},
		{"config note pull", ".dify_conf/note.md\n"},
		{"file upload s/SKILL.md", "public_download_url"},
	} {
		cmd := agentCommand(t, dir, fake.Environ(), "-test.run=^TestLandlocked$")
		cmd.Args[0] = cmd.Path // the tests, not the product
		cmd.Env = append(cmd.Env, "LANDLOCKED_ARGS="+run.args)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), run.want) {
			t.Errorf("%s: %v, %q, want %q", run.args, err, out, run.want)
		}
	}
	for _, p := range fake.TakeProblems() {
		t.Errorf("the stub complains: %s", p)
	}
}
