package snapshot

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// needTools skips a test on a machine without GNU tar and zstd.
func needTools(t testing.TB) {
	t.Helper()
	for _, name := range []string{"tar", "zstd"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
}

// pipe runs a shell command.
func pipe(t testing.TB, dir, command string, in []byte) []byte {
	t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(in)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%s: %v: %s", command, err, &stderr)
	}
	return out
}

// forTar is everything without the times that GNU tar warns of.
func forTar() nodes {
	tree := maps.Clone(everything)
	delete(tree, "old")
	delete(tree, "far")
	return tree
}

func TestTarReadsOurs(t *testing.T) {
	needTools(t)
	home, other := t.TempDir(), t.TempDir()
	forTar().make(t, home)
	archive, _ := save(t, home, SaveOptions{})
	pipe(t, other, "zstd -dc | tar --xattrs -xpf -", archive)
	diffTrees(t, readTree(t, other), readTree(t, home))
}

func TestWeReadTars(t *testing.T) {
	needTools(t)
	home := t.TempDir()
	forTar().make(t, home)
	want := readTree(t, home)
	for _, command := range []string{
		"tar --xattrs --format=pax -cf - . | zstd -3 -T0",
		"tar --xattrs --format=pax -cf - * .hidden | zstd -19 --long=26",
		"tar --xattrs --format=pax -b 1 -cf - . | zstd --fast --no-check",
	} {
		if strings.Contains(command, "*") {
			command = strings.Replace(command, "-cf - ", "-cf - -- ", 1)
		}
		other := t.TempDir()
		restore(t, pipe(t, home, command, nil), other, RestoreOptions{})
		diffTrees(t, readTree(t, other), want)
	}
}

func TestWeReadGNUFormat(t *testing.T) {
	needTools(t)
	home, other := t.TempDir(), t.TempDir()
	tree := forTar()
	for name, n := range tree { // the format has neither attributes nor parts of seconds
		n.time, n.xattrs = longAgo.Truncate(1e9), nil
		if n.dir != nil {
			delete(tree, name)
			continue
		}
		tree[name] = n
	}
	tree.make(t, home)
	restore(t, pipe(t, home, "tar --format=gnu -cf - . | zstd", nil), other, RestoreOptions{})
	diffTrees(t, readTree(t, other), readTree(t, home))
}

func TestGitArchive(t *testing.T) {
	needTools(t)
	repo := t.TempDir()
	write(t, repo+"/f", "tracked")
	git(t, repo, nil, "init", "-q")
	git(t, repo, nil, "add", "f")
	git(t, repo, nil, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one")
	other := t.TempDir()
	restore(t, pipe(t, repo, "git archive HEAD | zstd", nil), other, RestoreOptions{})
	if data, err := os.ReadFile(other + "/f"); err != nil || string(data) != "tracked" {
		t.Errorf("f holds %q, %v", data, err)
	}
}
