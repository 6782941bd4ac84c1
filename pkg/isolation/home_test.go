package isolation

import (
	"os"
	"strings"
	"testing"
)

// writes tells which of the paths a job can create a file in.
func writes(t *testing.T, p Policy, s site, job Job, dirs ...string) []string {
	t.Helper()
	script := `for d; do (: > "$d/made") 2>/dev/null && echo "$d"; done; :`
	argv := append([]string{"/bin/sh", "-c", script, "sh"}, dirs...)
	r := play(t, 0, plan{Policy: p, Job: job, Argv: argv, Env: jobEnv(s)})
	if r.Refused != "" {
		t.Fatalf("refused: %s", r.Refused)
	}
	return strings.Fields(r.Out)
}

// A caller chooses HOME and cwd. As root, so that only the rules stand between.
func TestNamedDirectories(t *testing.T) {
	s := newSite(t, 0)
	link := s.Root + "/link"
	must(t, os.Symlink("/", link))
	for _, tt := range []struct {
		name string
		job  Job
		want []string
	}{
		{"both", s.job(), []string{s.Home, s.Ws}},
		{"HOME empty", Job{Cwd: s.Ws}, []string{s.Ws}},
		{"HOME relative", Job{Home: "..", Cwd: s.Ws}, []string{s.Ws}},
		{"HOME root", Job{Home: "/", Cwd: s.Ws}, []string{s.Ws}},
		{"HOME a link to the root", Job{Home: link, Cwd: s.Ws}, []string{s.Ws}},
		{"HOME the root of a process", Job{Home: "/proc/self/root", Cwd: s.Ws}, []string{s.Ws}},
		{"HOME a system directory", Job{Home: "/etc", Cwd: s.Ws}, []string{s.Ws}},
		{"cwd root", Job{Home: s.Home, Cwd: "/"}, []string{s.Home}},
		{"cwd the state", Job{Home: s.Home, Cwd: s.State, State: s.State}, []string{s.Home}},
		{"cwd in the state", Job{Home: s.Home, Cwd: s.State + "/jobs", State: s.State}, []string{s.Home}},
		{"cwd above the state", Job{Home: s.Home, Cwd: s.Root, State: s.State}, []string{s.Home}},
		{"HOME in the state", Job{Home: s.State + "/jobs", Cwd: s.Ws, State: s.State}, []string{s.Ws}},
		{"HOME above the state", Job{Home: s.Root, Cwd: s.Ws, State: s.State}, []string{s.Home, s.Ws, s.Other, s.State}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := writes(t, defaults(t), s, tt.job, s.Home, s.Ws, s.Other, s.State, "/etc", "/usr", "/")
			if strings.Join(got, " ") != strings.Join(tt.want, " ") {
				t.Errorf("writable = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	s := newSite(t, 0)
	for name, job := range map[string]Job{
		"HOME missing": {Home: s.Root + "/none", Cwd: s.Ws},
		"HOME a file":  {Home: s.Script, Cwd: s.Ws},
		"cwd missing":  {Home: s.Home, Cwd: s.Root + "/none"},
	} {
		r := play(t, 0, plan{Policy: defaults(t), Job: job, Argv: []string{s.Script}})
		what, _, _ := strings.Cut(name, " ")
		if !strings.Contains(r.Refused, "open "+what) || r.Out != "" {
			t.Errorf("%s: refused %q, printed %q", name, r.Refused, r.Out)
		}
	}
}
