package snapshot

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// stateDir is where the runtime keeps its state unless told otherwise.
const stateDir = ".local/share/shellctl"

// guard knows the directories that no archive may carry: the usual state
// directory, and the one in use by name and by inode, since links in the home
// can give it further names.
type guard struct {
	paths []string // relative to the home
	ids   []inode
}

// newGuard returns the guard of a home. A state directory that holds the home
// can not be left out of it and is not looked at.
func newGuard(home, state string) guard {
	g := guard{paths: []string{stateDir}}
	if state == "" {
		return g
	}
	g.addPath(home, state)
	realHome, err1 := filepath.EvalSymlinks(home)
	realState, err2 := filepath.EvalSymlinks(state)
	if err1 != nil || err2 != nil || !g.addPath(realHome, realState) {
		return g
	}
	var st unix.Stat_t
	if unix.Stat(realState, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		g.ids = append(g.ids, inodeOf(&st))
	}
	return g
}

// addPath reports whether the state directory lies below the home.
func (g *guard) addPath(home, state string) bool {
	rel, err := filepath.Rel(home, state)
	if err != nil || rel == "." || rel == ".." || strings.HasPrefix(rel, ".."+string(os.PathSeparator)) {
		return false
	}
	g.paths = append(g.paths, rel)
	return true
}

// is reports whether the name is a guarded directory.
func (g *guard) is(name string) bool { return slices.Contains(g.paths, name) }

// covers reports whether the name is a guarded directory or lies below one.
func (g *guard) covers(name string) bool {
	for _, p := range g.paths {
		if rest, ok := strings.CutPrefix(name, p); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// owns reports whether the open directory is the state directory in use.
func (g *guard) owns(st *unix.Stat_t) bool { return slices.Contains(g.ids, inodeOf(st)) }
