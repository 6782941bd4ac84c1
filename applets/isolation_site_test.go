package applets_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"shellctl/pkg/client"
)

// site is a server with its state outside HOME, a job of somebody else that
// runs on it, and what else a job must not reach. All of it is one user's.
type site struct {
	*testServer
	root  string // holds home, other, out, state
	id    string // of the neighbour: a job on a terminal
	env   map[string]string
	tools string // holds attempt.py and int80
}

// newSite starts one. The neighbour waits for input, and says what it gets.
func newSite(t *testing.T, uid uint32, env ...string) *site {
	t.Helper()
	s := &site{root: tempDir(t, uid), tools: installTools(t)}
	for _, dir := range []string{"home", "home/sub", "other", "out", "out/dir", "state"} {
		own(t, uid, os.Mkdir(s.path(dir), 0o755), s.path(dir))
	}
	for name, text := range map[string]string{
		"other/secret": "neighbour's secret", "out/victim": "text", "out/empty": "",
		"state/made": "x", "out/program": "#!/bin/sh\nexit 0\n", "home/mine": "mine",
	} {
		own(t, uid, os.WriteFile(s.path(name), []byte(text), 0o755), s.path(name))
	}
	abstract, file := sockets(t, uid, s.path("out/socket"))
	s.testServer = startServer(t, serverOptions{uid: uid, env: env, home: s.path("home"), args: []string{"--state-dir", s.path("state")}})
	s.state = s.path("state")
	s.env = map[string]string{
		"PATH": systemPath, "OTHER": s.path("other"), "OUT": s.path("out"), "STATE": s.state,
		"TOOLS": s.tools, "ABSTRACT": abstract, "SOCKET": file,
		"SERVER": fmt.Sprint(s.cmd.Process.Pid), "URL": s.url,
	}
	s.settle()
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.root, name) }

// own checks an error and gives a file to a user.
func own(t *testing.T, uid uint32, err error, path string) {
	t.Helper()
	if err == nil {
		err = os.Chown(path, int(uid), int(uid))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// installTools puts the programs that make attempts where every job may run them.
func installTools(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../testdata/isolation/attempt.py")
	if err != nil {
		t.Fatal(err)
	}
	dir := systemDir(t)
	if err := os.WriteFile(dir+"/attempt.py", b, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// systemDir makes a directory below /usr/local, where jobs may read and execute.
func systemDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/usr/local/lib", "shellctl-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// sockets listens outside of every job: by an abstract name and by a path.
func sockets(t *testing.T, uid uint32, path string) (abstract, file string) {
	t.Helper()
	abstract = strings.ReplaceAll(path, "/", ".")
	for _, name := range []string{"@" + abstract, path} {
		l, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	own(t, uid, os.Chmod(path, 0o777), path)
	d, err := net.ListenPacket("unixgram", "@"+abstract+".dgram")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return abstract, path
}

var neighbourSays = regexp.MustCompile(`pid (\d+) runner (\d+) tty (\S+) ready`)

// settle starts the neighbour and learns what is public of it.
func (s *site) settle() {
	s.t.Helper()
	res, err := s.Run(context.Background(), client.RunRequest{
		Script: `echo s3cret-script > /dev/null
			echo "pid $$ runner $PPID tty $(tty) ready"
			while read x; do echo "got <$x>"; done`,
		Cwd: s.path("other"), Env: map[string]string{"HOME": s.path("other"), "KEY": "s3cret-env", "PATH": systemPath},
		WaitRequest: client.WaitRequest{Timeout: 0.001},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.id = res.JobID
	m := neighbourSays.FindStringSubmatch(s.until(s.id, "ready").Output)
	if m == nil {
		s.t.Fatal("the neighbour does not say who it is")
	}
	s.env["PID"], s.env["RUNNER"], s.env["TTY"] = m[1], m[2], m[3]
	s.env["JOB"] = filepath.Join(s.state, "jobs", s.id)
}

// try makes attempts in one job and returns the output of each that failed, by
// its name; those that succeeded are not in the map.
func (s *site) try(list []attempt, mode string) map[string]string {
	s.t.Helper()
	var script strings.Builder
	script.WriteString("try() { python3 -B \"$TOOLS/attempt.py\" \"$@\"; }\n")
	for _, a := range list {
		fmt.Fprintf(&script, "out=$( (%s) 2>&1 ) && out=OK; printf '%%s\\n' \"@@%s@@$out\"\n", a.script, a.name)
	}
	script.WriteString("echo @@end")
	res := s.runWith(client.RunRequest{Script: script.String(), Mode: mode, Env: s.env})
	wantExit(s.t, res, "exited", 0)
	failed := map[string]string{}
	for _, part := range strings.Split(res.Output, "\n@@") {
		name, out, ok := strings.Cut(strings.TrimPrefix(part, "@@"), "@@")
		if ok && out != "OK" {
			failed[name] = out
		}
	}
	if !strings.Contains(res.Output, "@@end") || strings.Count(res.Output, "@@") != 2*len(list)+1 {
		s.t.Fatalf("the attempts were not all made:\n%s", res.Output)
	}
	return failed
}
