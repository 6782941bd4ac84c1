package snapshot

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A tree is written as a Go value: names lead to nodes.
type nodes map[string]node

type node struct {
	dir    nodes
	data   string
	size   int64 // of a file without data: all zeros
	link   string
	hard   string // path of the other name
	mode   os.FileMode
	time   time.Time
	xattrs map[string]string
}

// make creates the tree in a directory. Modes and times are set at the end.
func (n nodes) make(t *testing.T, dir string) {
	t.Helper()
	n.makeIn(t, dir)
	n.linkIn(t, dir, dir)
	n.finish(t, dir)
}

func (n nodes) makeIn(t *testing.T, dir string) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	for _, name := range slices.Sorted(maps.Keys(n)) {
		e, p := n[name], filepath.Join(dir, name)
		switch {
		case e.dir != nil:
			e.dir.makeIn(t, p)
		case e.link != "":
			must(t, os.Symlink(e.link, p))
		case e.hard != "":
			continue
		default:
			must(t, os.WriteFile(p, []byte(e.data), 0o644))
			if e.size > 0 {
				must(t, os.Truncate(p, e.size))
			}
		}
		for k, v := range e.xattrs {
			must(t, unix.Setxattr(p, k, []byte(v), 0))
		}
	}
}

// linkIn makes the further names of files, once all files are there.
func (n nodes) linkIn(t *testing.T, root, dir string) {
	t.Helper()
	for name, e := range n {
		p := filepath.Join(dir, name)
		if e.hard != "" {
			must(t, os.Link(filepath.Join(root, e.hard), p))
		}
		e.dir.linkIn(t, root, p)
	}
}

func (n nodes) finish(t *testing.T, dir string) {
	t.Helper()
	for name, e := range n {
		p := filepath.Join(dir, name)
		if e.dir != nil {
			e.dir.finish(t, p)
		}
		if e.mode != 0 {
			must(t, unix.Chmod(p, uint32(e.mode)))
		}
		if !e.time.IsZero() {
			dir, err := os.Open(filepath.Dir(p))
			must(t, err)
			must(t, setTime(int(dir.Fd()), name, e.time))
			dir.Close()
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// state is all that a snapshot keeps of an entry.
type state struct {
	mode   uint32
	time   unix.Timespec
	size   int64
	sum    [sha256.Size]byte
	target string
	twin   string // first name of the same file
	xattrs string
}

// readTree returns the state of everything below a directory.
func readTree(t *testing.T, root string) map[string]state {
	t.Helper()
	tree := make(map[string]state)
	first := make(map[inode]string)
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		s, err := readState(p)
		if err != nil {
			return err
		}
		st := s.stat
		if st.Nlink > 1 && !d.IsDir() {
			if _, ok := first[inodeOf(&st)]; !ok {
				first[inodeOf(&st)] = rel
			}
			s.twin = first[inodeOf(&st)]
		}
		tree[rel] = s.state
		return nil
	})
	must(t, err)
	return tree
}

type fullState struct {
	state
	stat unix.Stat_t
}

func readState(p string) (s fullState, err error) {
	if err := unix.Lstat(p, &s.stat); err != nil {
		return s, err
	}
	s.mode, s.time = s.stat.Mode, s.stat.Mtim
	switch s.mode & syscall.S_IFMT {
	case syscall.S_IFLNK:
		s.target, err = os.Readlink(p)
		return s, err
	case syscall.S_IFREG:
		s.size = s.stat.Size
		if s.size < 64<<20 {
			data, err := os.ReadFile(p)
			if err != nil {
				return s, err
			}
			s.sum = sha256.Sum256(data)
		}
	}
	s.xattrs, err = readXattrs(p)
	return s, err
}

func readXattrs(p string) (string, error) {
	buf := make([]byte, maxXattr)
	n, err := unix.Llistxattr(p, buf)
	if err != nil {
		return "", nil
	}
	var list []string
	for name := range bytes.SplitSeq(buf[:n], []byte{0}) {
		if !strings.HasPrefix(string(name), userXattr) {
			continue
		}
		value := make([]byte, maxXattr)
		k, err := unix.Lgetxattr(p, string(name), value)
		if err != nil {
			return "", err
		}
		list = append(list, fmt.Sprintf("%s=%q", name, value[:k]))
	}
	slices.Sort(list)
	return strings.Join(list, " "), nil
}

// diffTrees reports each entry that differs.
func diffTrees(t *testing.T, got, want map[string]state) {
	t.Helper()
	for _, p := range slices.Sorted(maps.Keys(want)) {
		g, ok := got[p]
		if !ok {
			t.Errorf("%q is missing", p)
		} else if g != want[p] {
			t.Errorf("%q:\n got %+v\nwant %+v", p, g, want[p])
		}
	}
	for _, p := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[p]; !ok {
			t.Errorf("%q is one too many", p)
		}
	}
}
