package snapshot

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks bounds the links in one path, as the kernel does.
const maxLinks = 40

// goTo makes the directory of an entry the current one. The path is relative to
// the home and clean. Directories that are missing are made if so wanted.
func (r *restorer) goTo(dir string, makeDirs bool) error {
	todo := splitPath(dir)
	todo = r.keepCommon(todo)
	for links := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		if name == ".." {
			if err := r.up(dir); err != nil {
				return err
			}
			continue
		}
		target, err := r.down(name, makeDirs)
		if err != nil {
			return err
		}
		if target == "" {
			continue
		}
		if links++; links > maxLinks {
			return malformed("too many links in %q", dir)
		}
		if target[0] == '/' {
			return malformed("path escapes root through a link: %q", dir)
		}
		todo = append(splitPath(target), todo...)
	}
	return nil
}

// splitPath returns the components of a path, without empty ones and ".".
func splitPath(p string) []string {
	var list []string
	for name := range strings.SplitSeq(p, "/") {
		if name != "" && name != "." {
			list = append(list, name)
		}
	}
	return list
}

// keepCommon leaves the directories that are not on the way and returns the
// rest of the way. Those that are on it are no links: the position never is.
func (r *restorer) keepCommon(todo []string) []string {
	levels := r.tree.levels[1:]
	n := 0
	for n < len(levels) && n < len(todo) && levels[n].name == todo[n] {
		n++
	}
	for len(r.tree.levels) > n+1 {
		// An error means that the directory above was moved. It is found
		// out where the way leads on from there.
		_ = r.tree.leave()
	}
	return todo[n:]
}

// up follows a ".." in the target of a link.
func (r *restorer) up(dir string) error {
	if len(r.tree.levels) == 1 {
		return malformed("path escapes root through a link: %q", dir)
	}
	return r.tree.leave()
}

// down enters a directory, or returns the target of a link.
func (r *restorer) down(name string, makeDirs bool) (target string, err error) {
	if at := r.tree.at(name); r.guard.covers(at) {
		return "", malformed("entry in the state directory through a link: %q", at)
	}
	err = r.tree.enter(name)
	if err == unix.ENOENT && makeDirs {
		err = retry(func() error { return unix.Mkdirat(r.tree.here().fd, name, 0o700) })
		if err != nil && err != unix.EEXIST {
			return "", err
		}
		err = r.tree.enter(name)
	}
	if err == nil {
		return "", r.checkHere()
	}
	if err == unix.ENOTDIR || err == unix.ELOOP {
		if target, linkErr := readlinkat(r.tree.here().fd, name); linkErr == nil && target != "" {
			return target, nil
		}
	}
	return "", fmt.Errorf("open directory %q: %w", r.tree.at(name), err)
}

// checkHere refuses the state directory in use under whatever name.
func (r *restorer) checkHere() error {
	here := r.tree.here()
	if r.guard.owns(&here.st) {
		return malformed("entry in the state directory through a link: %q", here.path)
	}
	return nil
}
