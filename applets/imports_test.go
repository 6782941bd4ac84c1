package applets_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// layers lists the packages of the project from the outside in. A package
// imports only packages below it.
var layers = []string{
	"shellctl",
	"shellctl/applets",
	"shellctl/pkg/api",
	"shellctl/pkg/client",
	"shellctl/pkg/manager",
	"shellctl/pkg/runner",
	"shellctl/pkg/control",
	"shellctl/pkg/isolation",
	"shellctl/pkg/proctree",
	"shellctl/pkg/snapshot",
	"shellctl/pkg/stub",
	"shellctl/pkg/store",
	"shellctl/pkg/joblog",
	"shellctl/pkg/sanitize",
	"shellctl/pkg/config",
	"shellctl/pkg/job",
}

// libraries says behind which package each third-party library stands.
var libraries = map[string][]string{
	"github.com/spf13/cobra":              {"shellctl/applets"}, // the command line
	"github.com/spf13/pflag":              {"shellctl/applets"}, // its flags
	"github.com/schollz/progressbar/v3":   {"shellctl/applets"}, // bytes that pass, on a terminal
	"golang.org/x/term":                   {"shellctl/applets"}, // raw mode of the caller's terminal
	"github.com/creack/pty":               {"shellctl/pkg/runner"},
	"github.com/landlock-lsm/go-landlock": {"shellctl/pkg/isolation"},
	"github.com/klauspost/compress":       {"shellctl/pkg/snapshot"},
	"modernc.org/sqlite":                  {"shellctl/pkg/store"},
	"golang.org/x/sys":                    nil, // the system call interface, anywhere
	"kernel.org/pub/linux/libs/security":  {"shellctl/pkg/isolation"},
}

// notBuilt are packages of the layout that later work adds.
var notBuilt = []string{}

func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "shellctl/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		found = append(found, f[0])
		at := slices.Index(layers, f[0])
		if at < 0 {
			t.Errorf("package %s is not in the layout", f[0])
			continue
		}
		for _, imp := range f[1:] {
			checkImport(t, f[0], at, imp)
		}
	}
	for _, p := range layers {
		if !slices.Contains(found, p) && !slices.Contains(notBuilt, p) {
			t.Errorf("package %s of the layout does not exist", p)
		}
	}
}

func checkImport(t *testing.T, from string, at int, imp string) {
	if strings.HasPrefix(imp, "shellctl/") {
		if to := slices.Index(layers, imp); to <= at {
			t.Errorf("%s imports %s, which is not below it", from, imp)
		}
		return
	}
	if !strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") {
		if imp == "testing" {
			t.Errorf("%s imports testing", from)
		}
		return // the standard library
	}
	for lib, owners := range libraries {
		if imp == lib || strings.HasPrefix(imp, lib+"/") {
			if owners != nil && !slices.Contains(owners, from) {
				t.Errorf("%s imports %s, which stands behind %v", from, imp, owners)
			}
			return
		}
	}
	t.Errorf("%s imports %s, which no package has been given", from, imp)
}
