package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shellctl/pkg/job"
)

func TestExcludes(t *testing.T) {
	tests := []struct {
		patterns string // separated by newlines
		out      string // paths left out, separated by spaces; dirs end in "/"
		in       string
	}{
		{"*.log\n!keep", "a.log d/b.log keep/a.log", "keep/ a.txt"},
		{".cache/**\n!.cache/keep-me", ".cache/x .cache/d/", ".cache/ .cache .cache/keep-me"},
		{".cache\n!.cache/keep-me", ".cache/ .cache/keep-me", ""},
		{"[!b].log", "a.log", "b.log"},
		{"[^b].log", "a.log", "b.log"},
		{"# x", "", "#/ x"},
		{`\#x`, "#x", "x"},
		{`\!x`, "!x", "x"},
		{`a\ `, `a\`, "a"},
		{"a  ", "a", ""},
		{"a/**/b/c", "a/b/x/b/c a/b/c", "b/c"},
		{"**/a", "a d/a d/e/a", "b"},
		{"d/", "d/ x/d/", "d x/d"},
		{"/d", "d d/x", "x/d"},
		{"x/d", "x/d x/d/e", "d y/x/d"},
		{"**/", "a/", "a"},
		{"/\n!\n\n//", "", "a b/"},
		{"a?c", "abc", "ac abbc"},
		{"[[:digit:]]x", "1x", "ax"},
	}
	for _, tt := range tests {
		ex, err := CompileExcludes(strings.Split(tt.patterns, "\n"))
		if err != nil {
			t.Errorf("CompileExcludes(%q): %v", tt.patterns, err)
			continue
		}
		check := func(list string, want bool) {
			for _, p := range strings.Fields(list) {
				p = strings.ReplaceAll(p, `\`, " ")
				name, isDir := strings.CutSuffix(p, "/")
				if got := ex.excludes(name, isDir); got != want {
					t.Errorf("%q excludes %q = %v, want %v", tt.patterns, p, got, want)
				}
			}
		}
		check(tt.out, true)
		check(tt.in, false)
	}
}

func TestMalformedExcludes(t *testing.T) {
	for _, p := range []string{`a\`, "[a", "[", "a[[:nope:]]", "[[:alpha:]", "x\x00y", `d/[\`} {
		_, err := CompileExcludes([]string{"fine", p})
		e, ok := errors.AsType[*job.Error](err)
		if !ok || e.Code != job.CodeInvalidRequest || !strings.Contains(e.Message, fmt.Sprintf("%q", p)) {
			t.Errorf("CompileExcludes(%q) = %v, want an invalid_request that names it", p, err)
		}
	}
}

// TestExcludesAsGit compares with git on random trees and patterns.
func TestExcludesAsGit(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, uint64(time.Now().UnixNano())))
	repo := t.TempDir()
	git(t, repo, nil, "init", "-q")
	for range 4 {
		dir := filepath.Join(repo, "t")
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		randomTree(t, rnd, dir, 3)
		git(t, dir, nil, "init", "-q")
		paths := listPaths(t, dir)
		for range 100 {
			compareWithGit(t, dir, randomPatterns(rnd), paths)
		}
	}
}

func compareWithGit(t *testing.T, dir string, patterns []string, paths []string) {
	t.Helper()
	ex, err := CompileExcludes(patterns)
	if err != nil {
		return // git ignores such a pattern silently, we do not
	}
	write(t, filepath.Join(dir, ".git/info/exclude"), strings.Join(patterns, "\n")+"\n")
	var in bytes.Buffer
	for _, p := range paths {
		in.WriteString(strings.TrimSuffix(p, "/") + "\x00")
	}
	out := git(t, dir, &in, "check-ignore", "-z", "--stdin")
	ignored := strings.Split(string(out), "\x00")
	slices.Sort(ignored)
	for _, p := range paths {
		name, isDir := strings.CutSuffix(p, "/")
		_, want := slices.BinarySearch(ignored, name)
		if got := ex.excludes(name, isDir); got != want {
			t.Errorf("patterns %q: %q excluded = %v, git says %v", patterns, p, got, want)
		}
	}
}

func git(t *testing.T, dir string, stdin *bytes.Buffer, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	if stdin != nil {
		cmd.Stdin = stdin
	}
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		err = nil // check-ignore: none is ignored
	}
	if err != nil {
		t.Fatalf("git %q: %v", args, err)
	}
	return out
}

var treeNames = []string{"a", "b", "ab", "ba", "abc", "a.b", ".a", "a b", "-", "[", "b]", "A", "é", "a\\", "!a", "#b", "*", "1"}

func randomTree(t *testing.T, rnd *rand.Rand, dir string, depth int) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, i := range rnd.Perm(len(treeNames))[:5] {
		name := filepath.Join(dir, treeNames[i])
		if depth > 0 && rnd.IntN(2) == 0 {
			randomTree(t, rnd, name, depth-1)
		} else {
			write(t, name, "")
		}
	}
}

func randomPatterns(rnd *rand.Rand) []string {
	parts := []string{
		"a", "b", "ab", "a", "b", ".", "/", "/", "/", "*", "*", "**", "**/", "/**", "?", "[ab]", "[!a]", "[^b]", "[a-c]",
		`\a`, `\*`, `\/`, " ", `\ `, "[]b]", "[[:alpha:]]", "[![:punct:]]", "[a-]", `[\]]`, "é", "#", "!", "***", "-", "1", "[--1]",
		"[[:space:][:upper:]]", "[[-a]", "A", "[:a]", "\r",
	}
	list := make([]string, 1+rnd.IntN(4))
	for i := range list {
		var b strings.Builder
		if rnd.IntN(4) == 0 {
			b.WriteByte('!')
		}
		for range 1 + rnd.IntN(6) {
			b.WriteString(parts[rnd.IntN(len(parts))])
		}
		if rnd.IntN(5) == 0 {
			b.WriteByte('/')
		}
		list[i] = b.String()
	}
	return list
}

// listPaths returns what is below a directory except .git, directories with a
// slash at the end.
func listPaths(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		if d.Name() == ".git" {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(dir, p)
		if d.IsDir() {
			rel += "/"
		}
		list = append(list, rel)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestExcludesCost gives a deep tree many patterns of the worst kind: the work
// for a name must not depend on how deep it lies.
func TestExcludesCost(t *testing.T) {
	var patterns []string
	for i := range 500 {
		patterns = append(patterns, fmt.Sprintf("**/x%d/**/y*z*z*z", i), fmt.Sprintf("d/q%d/*", i), fmt.Sprintf("n%d", i))
	}
	ex, err := CompileExcludes(patterns)
	if err != nil {
		t.Fatal(err)
	}
	steps := func(depth int) int {
		m := ex.top()
		for range depth {
			m = m.enter("dir")
		}
		n := 0
		for _, l := range m.live {
			n += len(l.at)
		}
		return n
	}
	if near, far := steps(2), steps(200); near != far {
		t.Errorf("places to look at: %d at depth 2, %d at depth 200", near, far)
	}
}
