package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"shellctl/pkg/isolation"
	"shellctl/pkg/job"
	"shellctl/pkg/sanitize"
)

// Exit codes of a script that could not be executed.
const (
	exitNoCwd       = 111 // the working directory could not be entered
	exitSetup       = 125 // the runner could not prepare the script
	exitNotExecuted = 126 // the script or its interpreter could not be executed
	exitNoShell     = 127 // no interpreter found
)

// program is what the script is executed as.
type program struct {
	path string
	argv []string
	env  []string
}

// launch starts the script. A non-nil Exit is the end of a job that has none.
func (j *runningJob) launch(l *link) *job.Exit {
	prog, exit := j.prepare()
	if exit == nil {
		// What confines the script is put on a thread and can not be taken off
		// again; so a thread is spent on it.
		isolation.OnThread(func() { exit = j.launchConfined(l, prog) })
	}
	if exit != nil {
		return j.tell(exit)
	}
	offerToOOM(j.pid)
	for _, s := range j.stream {
		go s.pump()
	}
	return nil
}

// launchConfined starts the script from the calling thread, which is confined
// on the way. The order matters: the terminal is opened where the job may have
// terminals of its own, and nothing is opened after the thread is restricted.
func (j *runningJob) launchConfined(l *link, prog program) *job.Exit {
	var err error
	if j.cell, err = j.start.Policy.Enter(); err != nil {
		return exited(exitNotExecuted, "%s: %v", notConfined, err)
	}
	// Here, since the thread may have left the directory of the process; and by
	// ourselves, so that this error is told from one of the exec.
	if err := unix.Chdir(j.start.Cwd); err != nil {
		return exited(exitNoCwd, "enter working directory: %v", err)
	}
	files, done, err := j.connect(l)
	if err != nil {
		e := job.StartFailed(err)
		return &e
	}
	defer done()
	if err := j.cell.Restrict(j.confinement(prog)); err != nil {
		return exited(exitNotExecuted, "%s: %v", notConfined, err)
	}
	if err := j.spawn(prog, files); err != nil {
		return notSpawned(prog, err)
	}
	return nil
}

// notConfined begins the message of a job that was refused since it could not be
// confined; clients look for it.
const notConfined = "apply Landlock filesystem isolation"

// confinement is what the policy needs to know of this job.
func (j *runningJob) confinement(prog program) isolation.Job {
	c := isolation.Job{
		Home: lookup(prog.env, "HOME"), Cwd: j.start.Cwd,
		Script: filepath.Join(j.start.Dir, job.ScriptFile), State: j.start.StateDir,
	}
	if j.slave != nil {
		c.TTY = j.slave.Name()
	}
	return c
}

// prepare makes HOME and finds the interpreter.
func (j *runningJob) prepare() (program, *job.Exit) {
	env := make([]string, len(j.start.Env))
	for i, e := range j.start.Env {
		env[i] = string(e)
	}
	if home := lookup(env, "HOME"); home != "" {
		if !filepath.IsAbs(home) {
			home = filepath.Join(j.start.Cwd, home)
		}
		if err := os.MkdirAll(home, 0o755); err != nil {
			return program{}, exited(exitSetup, "make HOME: %v", err)
		}
	}
	script := filepath.Join(j.start.Dir, job.ScriptFile)
	direct, err := hasShebang(script)
	if err != nil {
		return program{}, exited(exitSetup, "read script: %v", err)
	}
	if direct {
		return program{script, []string{script}, env}, nil
	}
	sh, err := lookPath("sh", lookup(env, "PATH"))
	if err != nil {
		return program{}, exited(exitNoShell, "sh: %v; a script that does not begin with #! needs a shell", err)
	}
	return program{sh, []string{"sh", script}, env}, nil
}

// connect makes the streams of the job and returns the three descriptors of
// the script; done closes what only the script needs.
func (j *runningJob) connect(l *link) (files [3]*os.File, done func(), err error) {
	if j.start.Mode == job.ModePTY {
		return j.connectPTY(l)
	}
	return j.connectPipes(l)
}

func (j *runningJob) connectPTY(l *link) (files [3]*os.File, done func(), err error) {
	if j.master, j.slave, err = pty.Open(); err != nil {
		return files, nil, fmt.Errorf("open terminal: %w", err)
	}
	size := &pty.Winsize{Cols: j.start.Terminal.Cols, Rows: j.start.Terminal.Rows}
	if err = pty.Setsize(j.master, size); err != nil {
		return files, nil, fmt.Errorf("set terminal size: %w", err)
	}
	if err = onFile(j.slave, plainNewline); err != nil {
		return files, nil, fmt.Errorf("set terminal modes: %w", err)
	}
	if j.master, err = pollable(j.master); err != nil {
		return files, nil, fmt.Errorf("open terminal: %w", err)
	}
	if err = onFile(j.slave, func(fd int) error { return unix.IoctlSetInt(fd, unix.TIOCSCTTY, 0) }); err != nil {
		return files, nil, fmt.Errorf("take controlling terminal: %w", err)
	}
	filter := sanitize.New(j.out)
	j.stream = []*stream{{f: j.master, w: filter, filter: filter, grew: func() { l.grew(j.out.Size()) }, done: make(chan struct{})}}
	j.input = newInput(j.master)
	return [3]*os.File{j.slave, j.slave, j.slave}, func() {}, nil
}

// plainNewline tells the kernel that a line feed alone begins a new line here,
// as it does in a log (ONLRET of termios(3)). Else it would make CR LF of each,
// which we should have to undo, and would pass on two pieces a line: output in
// short lines takes half as long without.
func plainNewline(fd int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	t.Oflag = t.Oflag&^unix.ONLCR | unix.ONLRET
	return unix.IoctlSetTermios(fd, unix.TCSETS, t)
}

func (j *runningJob) connectPipes(l *link) (files [3]*os.File, done func(), err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return files, nil, fmt.Errorf("open stdin: %w", err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return files, nil, errors.Join(fmt.Errorf("open stdout: %w", err), null.Close())
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return files, nil, errors.Join(fmt.Errorf("open stderr: %w", err), null.Close(), outR.Close(), outW.Close())
	}
	j.stream = []*stream{
		{f: outR, w: j.out, grew: func() { l.grew(j.out.Size()) }, done: make(chan struct{})},
		{f: errR, w: j.errOut, done: make(chan struct{})},
	}
	return [3]*os.File{null, outW, errW}, func() {
		for _, f := range []*os.File{null, outW, errW} {
			_ = f.Close() // ours was only for the script to inherit
		}
	}, nil
}

// spawn starts the script, with no signal blocked.
func (j *runningJob) spawn(prog program, files [3]*os.File) error {
	var none unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &none, nil); err != nil {
		return fmt.Errorf("unblock signals: %w", err)
	}
	attr := &syscall.ProcAttr{
		Env:   prog.env,
		Files: []uintptr{files[0].Fd(), files[1].Fd(), files[2].Fd()},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	}
	return j.reaper.Start(func() (int, error) {
		pid, err := j.cell.ForkExec(prog.path, prog.argv, attr)
		if err != nil {
			return 0, err
		}
		j.mu.Lock()
		j.pid, j.started = pid, true
		j.mu.Unlock()
		if j.slave != nil {
			j.foreground(pid)
		}
		return pid, nil
	}, j.leaderExited)
}

// foreground gives the terminal to the script's group. A child can not do this
// for itself without a stop by SIGTTOU; so the runner does, and continues the
// group in case the script was quick enough to be stopped for reading before.
func (j *runningJob) foreground(pid int) {
	err := onFile(j.slave, func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, pid) })
	if err == nil {
		_ = unix.Kill(-pid, unix.SIGCONT) // ESRCH: ended already
	}
}

// notSpawned tells a script that can not be executed from a machine that can
// not start anything.
func notSpawned(prog program, err error) *job.Exit {
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		e := job.StartFailed(fmt.Errorf("start script: %w", err))
		return &e
	}
	return exited(exitNotExecuted, "exec %s: %v", prog.path, err)
}

// tell writes why the script was not executed to where its errors would have
// gone. A job that failed has an empty output: the reason is in the record.
func (j *runningJob) tell(e *job.Exit) *job.Exit {
	if e.Status == job.StatusFailed {
		return e
	}
	w := io.Writer(j.out)
	if j.errOut != nil {
		w = j.errOut
	}
	fmt.Fprintf(w, "shellctl: %s\n", e.Message)
	return e
}

// hasShebang reports whether the kernel is to choose the interpreter.
func hasShebang(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close() // only read from
	var b [2]byte
	if _, err := io.ReadFull(f, b[:]); err != nil {
		return false, nil // shorter than a shebang
	}
	return string(b[:]) == "#!", nil
}

// lookup returns the value of a variable in env, the last one winning.
func lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// lookPath finds an executable in a search path, which is the job's and not ours.
func lookPath(file, path string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		p := filepath.Join(dir, file)
		if !filepath.IsAbs(p) {
			continue // the current directory is the job's to fill
		}
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && unix.Access(p, unix.X_OK) == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("not found: executable file not found in $PATH")
}

// pollable returns the same open file with working deadlines. The library leaves
// the terminal in blocking mode, in which a read or write can not be ended.
func pollable(f *os.File) (*os.File, error) {
	defer f.Close() // its duplicate lives on
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// onFile runs f on the descriptor of an open file without taking it off the poller.
func onFile(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	if err := raw.Control(func(fd uintptr) { ferr = f(int(fd)) }); err != nil {
		return err
	}
	return ferr
}
