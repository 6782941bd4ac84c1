package applets_test

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"shellctl/testdata/fakestub"
)

type stubKey struct{}

// TestAgentScripts runs testdata/script/agent: each script has a fake stub of
// its own and the program as dify-agent. The command "stub" works on the fake;
// see runStub. At the end of a script the fake must have nothing to complain of.
func TestAgentScripts(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "../testdata/script/agent",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			bin := filepath.Join(env.WorkDir, ".bin")
			if err := os.Mkdir(bin, 0o755); err != nil {
				return err
			}
			for _, name := range []string{"dify-agent", "shellctl"} {
				if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
					return err
				}
			}
			env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector would wait a second
			env.Setenv("HOME", env.WorkDir)
			return startStub(t, env)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"stub": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg {
					ts.Fatalf("stub cannot be negated")
				}
				runStub(ts, ts.Value(stubKey{}).(*fakestub.Stub), args)
			},
			"zip":  func(ts *testscript.TestScript, _ bool, args []string) { packZip(ts, args) },
			"size": func(ts *testscript.TestScript, _ bool, args []string) { checkSize(ts, args) },
			"refusals": func(ts *testscript.TestScript, _ bool, args []string) {
				checkRefusals(ts, ts.Value(stubKey{}).(*fakestub.Stub), args)
			},
		},
	})
}

func startStub(t *testing.T, env *testscript.Env) error {
	stub := fakestub.Start()
	env.Values[stubKey{}] = stub
	env.Defer(func() {
		stub.Close()
		if problems := stub.TakeProblems(); len(problems) > 0 {
			t.Errorf("the stub complains:\n%s", strings.Join(problems, "\n"))
		}
	})
	for _, v := range stub.Environ() {
		name, value, _ := strings.Cut(v, "=")
		env.Setenv(name, value)
	}
	env.Setenv("STUB", strings.TrimSuffix(stub.URL(), "/agent-stub"))
	env.Setenv("TOKEN", fakestub.Token)
	return nil
}

// runStub is the script command "stub":
//
//	stub fail ROUTE MODE      make a route fail; MODE "ok" ends that
//	stub older|unaware        play an older server
//	stub relative             links for the browser lack an origin
//	stub skill NAME FILE      put an archive into the configuration
//	stub file NAME FILE       put a file into the configuration
//	stub drive KEY FILE       put a file into the drive
//	stub tool NAME FILE       store a tool file; sets $REF
//	stub note TEXT
//	stub announce NAME SIZE   lie about a size
//	stub has skill|file|drive|note|env NAME FILE   compare with what was pushed
//	stub names FILE           compare the names and types of the uploads
//	stub calls [CALL]...      compare the calls since the last time
//	stub callset [CALL]...    likewise, in any order
//	stub problems REGEXP      expect complaints
func runStub(ts *testscript.TestScript, s *fakestub.Stub, args []string) {
	arg := func(i int) string {
		if i >= len(args) {
			ts.Fatalf("stub %v: too few arguments", args)
		}
		return strings.NewReplacer(`\0`, "\x00", `\n`, "\n").Replace(args[i])
	}
	switch arg(0) {
	case "fail":
		s.Fail(arg(1), strings.TrimPrefix(arg(2), "ok"))
	case "older":
		s.SetGeneration(fakestub.Drive)
	case "unaware":
		s.SetGeneration(fakestub.Unaware)
	case "relative":
		s.SetRelative(true)
	case "skill":
		s.AddSkill(arg(1), []byte(ts.ReadFile(arg(2))))
	case "file":
		s.AddFile(arg(1), []byte(ts.ReadFile(arg(2))))
	case "drive":
		s.AddDrive(arg(1), []byte(ts.ReadFile(arg(2))))
	case "tool":
		ts.Setenv("REF", s.AddToolFile(arg(1), []byte(ts.ReadFile(arg(2)))))
	case "note":
		s.SetNote(arg(1))
	case "announce":
		size, err := strconv.Atoi(arg(2))
		ts.Check(err)
		s.Announce(arg(1), size)
	case "calls":
		compareLists(ts, s.TakeCalls(), args[1:])
	case "callset":
		compareLists(ts, slices.Sorted(slices.Values(s.TakeCalls())), slices.Sorted(slices.Values(args[1:])))
	case "problems":
		if got := strings.Join(s.TakeProblems(), "\n"); !strings.Contains(got, arg(1)) {
			ts.Fatalf("problems %q, want %q", got, arg(1))
		}
	default:
		compareStub(ts, s, arg)
	}
	if problems := s.TakeProblems(); len(problems) > 0 {
		ts.Fatalf("the stub complains:\n%s", strings.Join(problems, "\n"))
	}
}

// compareStub compares what the stub has with files of the script.
func compareStub(ts *testscript.TestScript, s *fakestub.Stub, arg func(int) string) {
	switch arg(0) + " " + arg(1) {
	case "has skill":
		compareText(ts, listZip(ts, s.Skill(arg(2))), ts.ReadFile(arg(3)))
	case "has file":
		compareText(ts, string(s.File(arg(2))), ts.ReadFile(arg(3)))
	case "has drive":
		data := s.DriveFile(arg(2))
		if strings.HasSuffix(arg(2), ".zip") {
			data = []byte(listZip(ts, data))
		}
		compareText(ts, string(data), ts.ReadFile(arg(3)))
	case "has note":
		compareText(ts, s.Note(), ts.ReadFile(arg(2)))
	case "has env":
		compareText(ts, s.Env(), ts.ReadFile(arg(2)))
	case "names " + arg(1):
		names, types, _ := s.Uploads()
		var text strings.Builder
		for i := range names {
			text.WriteString(names[i] + " " + types[i] + "\n")
		}
		compareText(ts, text.String(), ts.ReadFile(arg(1)))
	default:
		ts.Fatalf("stub %s: unknown", arg(0))
	}
}

func compareText(ts *testscript.TestScript, got, want string) {
	if got != want {
		ts.Fatalf("got:\n%s\nwant:\n%s", got, want)
	}
}

func compareLists(ts *testscript.TestScript, got, want []string) {
	if !slices.Equal(got, want) {
		ts.Fatalf("got  %q\nwant %q", got, want)
	}
}

// listZip shows a zip file as a line "mode name: text" for each entry.
func listZip(ts *testscript.TestScript, data []byte) string {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	ts.Check(err)
	var text strings.Builder
	for _, f := range z.File {
		r, err := f.Open()
		ts.Check(err)
		var content bytes.Buffer
		_, err = content.ReadFrom(r)
		ts.Check(err)
		text.WriteString(f.Mode().String() + " " + f.Name + ": " + strings.TrimSpace(content.String()) + "\n")
	}
	return text.String()
}

// packZip is the script command "zip FILE [NAME=SPEC]...". SPEC is a text, or
// "@TARGET" for a symlink, "+TEXT" for an executable, "/" for a directory,
// "*N" for N MiB of zeros. In NAME \0 stands for a NUL and ~ for 300 letters.
func packZip(ts *testscript.TestScript, args []string) {
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for _, arg := range args[1:] {
		name, spec, _ := strings.Cut(arg, "=")
		name = strings.NewReplacer(`\0`, "\x00", "~", strings.Repeat("n", 300)).Replace(name)
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		h.SetMode(0o644)
		content := []byte(spec + "\n")
		switch {
		case strings.HasPrefix(spec, "@"):
			h.SetMode(fs.ModeSymlink | 0o777)
			content = []byte(spec[1:])
		case strings.HasPrefix(spec, "+"):
			h.SetMode(0o755)
			content = []byte(spec[1:] + "\n")
		case spec == "fifo":
			h.SetMode(fs.ModeNamedPipe | 0o644)
		case spec == "/":
			h.Name, h.Method = name+"/", zip.Store
			content = nil
		case strings.HasPrefix(spec, "*"):
			n, err := strconv.Atoi(spec[1:])
			ts.Check(err)
			content = make([]byte, n<<20)
		}
		w, err := z.CreateHeader(h)
		ts.Check(err)
		_, err = w.Write(content)
		ts.Check(err)
	}
	ts.Check(z.Close())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), buf.Bytes(), 0o644))
}

// checkSize is the script command "size FILE BYTES".
func checkSize(ts *testscript.TestScript, args []string) {
	fi, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := strconv.FormatInt(fi.Size(), 10); got != args[1] {
		ts.Fatalf("%s has %s bytes, want %s", args[0], got, args[1])
	}
}

// checkRefusals is the script command "refusals ROUTE PREFIX PROGRAM ARG...":
// in whatever way the route refuses, the program ends with 1, nothing on stdout,
// and on stderr its name, the prefix and the reason.
func checkRefusals(ts *testscript.TestScript, s *fakestub.Stub, args []string) {
	route, prefix, program, rest := args[0], args[1], args[2], args[3:]
	list := `{"detail":[{"loc":["body","x"],"msg":"not permitted","type":"extra_forbidden"}]}`
	for mode, want := range map[string]string{
		"401":        "HTTP 401: the stub says no",
		"expired":    "HTTP 401: the Agent Stub authorization expired after 5 minutes and will not refresh automatically; start a new shell tool call and retry the command there",
		"403-object": "HTTP 403: a structured no",
		"403-code":   `HTTP 403: {"code":"some_code"}`,
		"422-list":   "HTTP 422: " + list,
		"500-text":   "HTTP 500: plain words",
		"502-html":   "HTTP 502: <html>bad gateway</html>",
		"503":        "HTTP 503: the stub says no",
		"413-early":  "HTTP 413: not a byte more",
		"redirect":   "HTTP 404: Not Found",
		"cut":        "read response: unexpected EOF",
		"endless":    "read response: response is too long",
	} {
		s.Fail(route, mode)
		if err := ts.Exec(program, rest...); err == nil {
			ts.Fatalf("%s %s: exit code 0", route, mode)
		}
		if out := ts.ReadFile("stdout"); out != "" {
			ts.Fatalf("%s %s: stdout %q", route, mode, out)
		}
		compareText(ts, ts.ReadFile("stderr"), "dify-agent: "+prefix+want+"\n")
	}
	s.Fail(route, "")
	s.TakeCalls()
}
