package applets_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// deployment is what a file of testdata/deploy says about the product.
type deployment struct {
	containers []map[string]any // whose image is ours
	commands   [][]string       // that run in it
	paths      []string         // of the API
	ports      []int
	variables  []string // SHELLCTL_ ones
}

const dnsPort = 53 // that sandboxes may reach

// TestDeploy checks the deployment files against the program: what they name
// must exist in it.
func TestDeploy(t *testing.T) {
	files, err := filepath.Glob("../testdata/deploy/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	s := startServer(t, serverOptions{})
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var d deployment
			for _, doc := range readYAML(t, file) {
				d.walk("", doc)
			}
			d.check(t, s)
		})
	}
}

func readYAML(t *testing.T, file string) []any {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() // only read from
	var docs []any
	for dec := yaml.NewDecoder(f); ; {
		var doc any
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		docs = append(docs, doc)
	}
}

// walk collects from a node; key is what it is the value of.
func (d *deployment) walk(key string, node any) {
	switch n := node.(type) {
	case map[string]any:
		if image, _ := n["image"].(string); strings.HasPrefix(image, "shellctl:") {
			d.containers = append(d.containers, n)
		}
		for k, v := range n {
			if strings.HasPrefix(k, "SHELLCTL_") {
				d.variables = append(d.variables, k)
			}
			d.walk(k, v)
		}
	case []any:
		if words := toStrings(n); key == "args" || key == "command" || key == "test" {
			if key == "test" {
				words = words[1:] // CMD
			}
			d.commands = append(d.commands, words)
			return
		}
		for _, v := range n {
			d.walk(key, v)
		}
	case string:
		switch {
		case strings.HasSuffix(key, "_cmd"):
			d.commands = append(d.commands, strings.Fields(n))
		case key == "path":
			d.paths = append(d.paths, n)
		case key == "name" && strings.HasPrefix(n, "SHELLCTL_"):
			d.variables = append(d.variables, n)
		}
	case int:
		if (key == "port" || key == "containerPort") && n != dnsPort {
			d.ports = append(d.ports, n)
		}
	}
}

func toStrings(list []any) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i], _ = v.(string)
	}
	return out
}

func (d *deployment) check(t *testing.T, s *testServer) {
	if len(d.containers) == 0 && len(d.commands) == 0 {
		t.Error("says nothing about the product")
	}
	listen := ""
	for _, c := range d.commands {
		if address := d.checkCommand(t, s, c); address != "" {
			listen = address
		}
	}
	if listen != "0.0.0.0:5004" {
		t.Errorf("the server listens on %q, want the port of the image on all addresses", listen)
	}
	for _, p := range d.ports {
		if p != 5004 {
			t.Errorf("port %d is not the server's", p)
		}
	}
	for _, p := range d.paths {
		if status, body := s.call(http.MethodGet, p, "", "Authorization", ""); status != http.StatusOK {
			t.Errorf("GET %s = %d %s", p, status, body)
		}
	}
	checkVariables(t, d.variables)
}

// checkCommand runs what does not serve, and has the flags of what does parsed.
// It returns the address of a server.
func (d *deployment) checkCommand(t *testing.T, s *testServer, argv []string) (listen string) {
	t.Helper()
	if argv[0] == "/usr/bin/env" {
		name, _, _ := strings.Cut(argv[1], "=")
		d.variables = append(d.variables, name)
		argv = argv[2:]
	}
	if argv[0] == "curl" {
		argv[len(argv)-1] = strings.Replace(argv[len(argv)-1], "http://localhost:5004", s.url, 1)
	} else if name, ok := strings.CutPrefix(argv[0], "/usr/local/bin/"); ok || argv[0] == "shellctl" {
		argv = append([]string{program(t, strings.TrimPrefix(name, "/usr/local/bin/"))}, argv[1:]...)
	} else {
		t.Errorf("command %q is not of the image", argv)
		return ""
	}
	run := argv
	if len(argv) == 4 && argv[1] == "serve" && argv[2] == "--listen" {
		listen = argv[3]
		run = append(argv[:4:4], "--help")
	}
	cmd := exec.Command(run[0], run[1:]...)
	cmd.Env = append(os.Environ(), "SHELLCTL_BASE_URL="+s.url, "GORACE=atexit_sleep_ms=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%q: %v\n%s", run, err, out)
	}
	return listen
}

var quoted = regexp.MustCompile(`"(SHELLCTL_[A-Z_]+)"`)

// checkVariables looks for the variables in the source of the program, tests
// aside.
func checkVariables(t *testing.T, names []string) {
	t.Helper()
	known := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range quoted.FindAllStringSubmatch(string(b), -1) {
			known[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !known[name] {
			t.Errorf("variable %s is not one of the program", name)
		}
	}
}

// TestDockerfile holds the image to what deployments and clients rely on.
func TestDockerfile(t *testing.T) {
	b, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	runtime := text[strings.LastIndex(text, "\nFROM "):]
	for _, want := range []string{
		"FROM python:3.12-slim-bookworm AS runtime", // the last stage is the default
		`ENTRYPOINT ["/usr/bin/tini", "-g", "--"]`, `CMD ["shellctl", "serve", "--listen", "0.0.0.0:5004"]`,
		"USER dify", "WORKDIR /home/dify", "EXPOSE 5004", `CMD ["shellctl", "health"]`, "SHELLCTL_BASE_URL=http://127.0.0.1:5004",
	} {
		if !strings.Contains(runtime, want) {
			t.Errorf("the runtime stage lacks %s", want)
		}
	}
	if strings.Contains(text, "tmux") {
		t.Error("the image has tmux")
	}
	if m := regexp.MustCompile(`golang:(1\.\d+)`).FindStringSubmatch(text); m == nil || !strings.HasPrefix(goDirective(t), m[1]) {
		t.Errorf("the image is built with Go %v, go.mod asks for %s", m, goDirective(t))
	}
}

func goDirective(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(string(b))
	if m == nil {
		t.Fatal("go.mod names no version")
	}
	return m[1]
}
