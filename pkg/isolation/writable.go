package isolation

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// systemTrees never become writable by being, or lying above, a HOME or cwd.
func systemTrees() []string {
	return []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc",
		"/proc", "/sys", "/dev", "/boot", "/run", "/var/run",
	}
}

// sourceTrees are where images keep sources inside a system tree.
func sourceTrees() []string { return []string{"/usr/src", "/usr/local/src"} }

// systemDirs hold what belongs to different owners: they do not become writable
// themselves, a directory below them does.
func systemDirs() []string {
	return []string{
		"/", "/home", "/opt", "/var", "/var/lib", "/var/log", "/var/cache", "/var/spool",
		"/usr/src", "/usr/local/src",
	}
}

// below reports whether path is dir or lies below it. Both are clean.
func below(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// mayWrite reports whether naming a directory as HOME or cwd makes it writable.
// The path is absolute and free of symlinks.
func mayWrite(path string) bool {
	if slices.Contains(systemDirs(), path) {
		return false
	}
	inside := func(tree string) bool { return below(path, tree) }
	if slices.ContainsFunc(sourceTrees(), inside) {
		return true
	}
	return !slices.ContainsFunc(systemTrees(), inside)
}

// allowHome makes HOME writable. A relative one would depend on who looks at it.
func (r *ruleset) allowHome(home, state string) error {
	return r.allowWritable("HOME", home, func(path string) bool {
		// A HOME that holds the state directory is documented to reach it.
		return mayWrite(path) && (state == "" || path == state || !below(path, state))
	})
}

// allowCwd makes the cwd writable, unless it lies in the server's state or
// above it: only HOME may reach that.
func (r *ruleset) allowCwd(cwd, state string) error {
	return r.allowWritable("cwd", cwd, func(path string) bool {
		return mayWrite(path) && (state == "" || !below(path, state) && !below(state, path))
	})
}

// allowWritable looks at the directory and grants it through one descriptor, so
// that it can not be swapped in between.
func (r *ruleset) allowWritable(what, path string, may func(string) bool) error {
	if !filepath.IsAbs(path) {
		return nil
	}
	fd, real, err := openDir(path)
	if err != nil {
		return fmt.Errorf("open %s: %w", what, err)
	}
	defer unix.Close(fd)
	if !may(real) {
		return nil
	}
	if err := r.allowFD(fd, writeTree); err != nil {
		return fmt.Errorf("allow %s %s: %w", what, path, err)
	}
	return nil
}

// openDir opens a directory and returns its path without symlinks.
func openDir(path string) (int, string, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "", fmt.Errorf("%s: %w", path, err)
	}
	var buf [unix.PathMax]byte
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), buf[:])
	if err != nil {
		unix.Close(fd)
		return -1, "", fmt.Errorf("resolve %s: %w", path, err)
	}
	return fd, string(buf[:n]), nil
}
