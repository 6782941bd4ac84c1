package manager

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"shellctl/pkg/config"
	"shellctl/pkg/job"
)

// serverEnv is what a job gets of the server's environment: all but our own
// variables, the token among them, and those of a terminal that is not the job's.
func serverEnv(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		switch name {
		case "TMUX", "TMUX_PANE", "COLUMNS", "LINES", "PWD", "OLDPWD", "_":
			return true
		}
		return strings.HasPrefix(name, config.EnvPrefix)
	})
}

// jobEnv builds the environment of a job. The request wins over the server's
// and our defaults; the directory for temporary files is always the working
// directory, since it is the place that is writable under isolation.
func (m *Manager) jobEnv(r Request, cwd string) [][]byte {
	env := make(map[string]string, len(m.env)+len(r.Env)+12)
	for _, name := range []string{"PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER"} {
		env[name] = "cat" // a pager on a terminal would wait for a key for ever
	}
	for _, e := range m.env {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	if r.Mode == job.ModePTY {
		env["TERM"] = "xterm-256color" // the job's terminal is ours, whatever the server's is
	}
	for name, value := range r.Env {
		env[name] = value
	}
	for _, name := range []string{"TMPDIR", "TMP", "TEMP", "PWD"} {
		env[name] = cwd
	}
	out := make([][]byte, 0, len(env))
	for name, value := range env {
		out = append(out, []byte(name+"="+value))
	}
	slices.SortFunc(out, slices.Compare)
	return out
}

// fitsExec refuses an environment that the kernel would not take, while the
// caller can still be told which variable it is.
func fitsExec(env [][]byte) error {
	total := 0
	for _, e := range env {
		if len(e)+1 > config.MaxEnvEntry {
			name, _, _ := strings.Cut(string(e), "=")
			return job.Errorf(job.CodeValidation, "env %s is too long: %d bytes, the kernel takes %d", name, len(e), config.MaxEnvEntry-1)
		}
		total += len(e) + 1 + 8 // the string with its NUL and the pointer to it
	}
	if limit := execLimit(); total > limit {
		return job.Errorf(job.CodeValidation, "env is too large: %d bytes, the kernel takes %d", total, limit)
	}
	return nil
}

// execLimit is how much the kernel takes for arguments and environment: a
// quarter of the stack limit, at least 128 KiB, at most 6 MiB (execve(2)); a
// little is left for the script's arguments.
func execLimit() int {
	limit := uint64(6 << 20)
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_STACK, &r); err == nil {
		limit = min(limit, max(r.Cur/4, 128<<10))
	}
	return int(limit) - 16<<10
}

// resolveCwd turns the working directory of a request into an absolute path.
func (m *Manager) resolveCwd(cwd string) (string, error) {
	path := cwd
	switch {
	case cwd == "":
		path = m.home
	case cwd == "~" || strings.HasPrefix(cwd, "~/"):
		path = filepath.Join(m.home, cwd[1:])
	}
	st, err := os.Stat(path)
	if path == "" || strings.ContainsRune(path, 0) || err != nil || !st.IsDir() {
		return "", job.Errorf(job.CodeInvalidCwd, "cwd is not a directory: %s", path)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS); err != nil {
		return "", job.Errorf(job.CodeInvalidCwd, "cwd can not be entered: %s: %v", path, err)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", job.Errorf(job.CodeInvalidCwd, "cwd is not a directory: %s", path)
	}
	return abs, nil
}
