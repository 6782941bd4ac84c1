package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"shellctl/pkg/control"
	"shellctl/pkg/job"
	"shellctl/pkg/proctree"
	"shellctl/pkg/store"
)

// Request is a job that a client asks for, checked in form.
type Request struct {
	Script   Script
	Cwd      string // empty: HOME of the server; "~" stands for it too
	Env      map[string]string
	Mode     job.Mode
	Terminal job.Terminal
	Key      string // of the client's: a request repeated with it gets the same job; empty: none
}

// Script is the text of a script: in memory, or in a file made by Spill.
type Script struct {
	Text []byte
	File *os.File // nil: Text is all
}

// Discard removes what a script that is not run has left on the disk.
func (s Script) Discard() {
	if s.File != nil {
		_ = s.File.Close()           // not wanted any more
		_ = os.Remove(s.File.Name()) // the clean-up at the next start takes what stays
	}
}

// Spill makes a file for a script that is too large to hold in memory. It
// becomes the script of the job without being copied.
func (m *Manager) Spill() (*os.File, error) {
	f, err := os.CreateTemp(filepath.Join(m.cfg.StateDir, jobsDir), spillName+"*")
	if err != nil {
		return nil, fmt.Errorf("make script file: %w", err)
	}
	return f, nil
}

// idTries bounds the search for a free id.
const idTries = 20

// Run starts a job and waits as [Manager.Wait] does from offset 0. A job that
// could not be started is no error but one in the state failed.
func (m *Manager) Run(ctx context.Context, r Request, w WaitOptions) (Result, error) {
	if err := m.opened(ctx); err != nil {
		r.Script.Discard()
		return Result{}, err
	}
	cwd, err := m.resolveCwd(r.Cwd)
	if err != nil {
		r.Script.Discard()
		return Result{}, err
	}
	env := m.jobEnv(r, cwd)
	if err := fitsExec(env); err != nil {
		r.Script.Discard()
		return Result{}, err
	}
	if r.Key != "" {
		return m.runOnce(ctx, r, cwd, env, w)
	}
	j, err := m.launch(r, cwd, env, nil)
	if err != nil {
		return Result{}, err
	}
	return m.waitLive(ctx, j, w)
}

// launch makes a job and starts it. From here on it does not depend on the
// request: a client that goes away leaves it running.
func (m *Manager) launch(r Request, cwd string, env [][]byte, hash []byte) (*liveJob, error) {
	if err := m.running.enter(m.cfg.Limits.MaxRunningJobs); err != nil {
		r.Script.Discard()
		return nil, err
	}
	id, err := m.makeDir(r.Script)
	if err != nil {
		m.running.leave()
		r.Script.Discard()
		return nil, err
	}
	j, err := m.start(id, r, cwd, env, hash)
	if err != nil {
		m.running.leave()
		return nil, errors.Join(err, os.RemoveAll(m.dir(id)))
	}
	return j, nil
}

// makeDir makes the directory of a new job with its script.
func (m *Manager) makeDir(s Script) (job.ID, error) {
	var id job.ID
	for try := 0; ; try++ {
		id = job.NewID()
		err := os.Mkdir(m.dir(id), dirMode)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) || try == idTries {
			return "", fmt.Errorf("make job directory: %w", err)
		}
	}
	if err := m.putScript(id, s); err != nil {
		return "", errors.Join(err, os.RemoveAll(m.dir(id)))
	}
	return id, nil
}

func (m *Manager) putScript(id job.ID, s Script) error {
	path := filepath.Join(m.dir(id), job.ScriptFile)
	mode := os.FileMode(0o600)
	direct := isShebang(s)
	if direct {
		mode = 0o700
	}
	if s.File == nil {
		if err := os.WriteFile(path, s.Text, mode); err != nil {
			return fmt.Errorf("write script: %w", err)
		}
	} else {
		err := errors.Join(s.File.Chmod(mode), s.File.Close(), os.Rename(s.File.Name(), path))
		if err != nil {
			return fmt.Errorf("write script: %w", err)
		}
	}
	if direct {
		// A process that is being started holds a copy of all our descriptors
		// until its exec. While one holds the script open for writing, executing
		// the script fails with ETXTBSY; so let those under way get past it.
		syscall.ForkLock.RLock()
		//lint:ignore SA2001 to have waited is all that is wanted
		syscall.ForkLock.RUnlock()
	}
	return nil
}

func isShebang(s Script) bool {
	if s.File == nil {
		return strings.HasPrefix(string(s.Text[:min(2, len(s.Text))]), "#!")
	}
	var b [2]byte
	n, err := s.File.ReadAt(b[:], 0)
	return n == 2 && err == nil && string(b[:]) == "#!"
}

// start gets a runner, records the job and hands it over.
func (m *Manager) start(id job.ID, r Request, cwd string, env [][]byte, hash []byte) (*liveJob, error) {
	row := store.Row{
		ID: id, Mode: r.Mode, Cwd: cwd, Terminal: r.Terminal, Status: job.StatusRunning,
		Created: now(), Started: now(), BootID: m.boot, ControlPath: m.controlPath(id),
		RequestKey: r.Key, RequestHash: hash,
	}
	ctx := context.WithoutCancel(m.ctx)
	row.Cgroup = m.newCgroup(id)
	conn, pid, err := m.spawn(row.Cgroup)
	if err != nil {
		m.removeCgroup(row)
		return m.startFailed(ctx, row, err)
	}
	row.RunnerPID = pid
	if st, err := proctree.ReadStat(pid); err == nil {
		row.RunnerStart = st.Start // else the runner is gone already, as follow will see
	}
	if err := m.store.Insert(ctx, row); err != nil {
		_ = conn.Close() // without a job the runner ends
		return nil, err  // its control group is swept at the next start
	}
	j := newLive(row, conn)
	m.add(j)
	m.wg.Go(func() { m.follow(j) })
	start := control.Start{
		ID: id, Mode: r.Mode, Dir: m.dir(id), StateDir: m.cfg.StateDir, Control: row.ControlPath,
		ServerLock: filepath.Join(m.cfg.StateDir, lockFile),
		Cwd:        cwd, Env: env, Terminal: r.Terminal, Settings: m.cfg.Runner, Policy: m.policy, BusyTimeout: busyRunner,
		Cgroup: row.Cgroup,
	}
	j.tell(control.Message{Kind: control.KindHello, Version: control.Version})
	j.tell(control.Message{Kind: control.KindStart, Start: &start})
	m.log.Debug("job started", "job_id", id, "mode", r.Mode, "runner", pid)
	return j, nil
}

// startFailed records a job for which not even a runner could be started.
func (m *Manager) startFailed(ctx context.Context, row store.Row, cause error) (*liveJob, error) {
	m.log.Error("a job could not be started", "job_id", row.ID, "error", cause)
	exit := job.Exit{Status: job.StatusFailed, Reason: job.ReasonStartFailed, Message: cause.Error(), EndedAt: now()}
	row.Status, row.Reason, row.Message, row.Ended = exit.Status, exit.Reason, exit.Message, exit.EndedAt
	if err := os.WriteFile(m.OutputPath(row.ID), nil, 0o600); err != nil {
		return nil, errors.Join(cause, err)
	}
	if err := m.store.Insert(ctx, row); err != nil {
		return nil, errors.Join(cause, err)
	}
	m.running.leave()
	m.gc.note(row.ID, time.Now())
	j := newLive(row, nil)
	j.exit = &exit
	return j, nil
}

// spawn starts a runner in a session of its own. It has no data in its arguments
// and an empty environment; all it needs comes through the connection.
// It is born in the control group, if one is given.
func (m *Manager) spawn(cgroup string) (*control.Conn, int, error) {
	conn, theirs, err := control.Pair()
	if err != nil {
		return nil, 0, err
	}
	defer theirs.Close() // the runner has its copy
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("start runner: %w", err), conn.Close())
	}
	defer null.Close() // nothing to lose
	attr := &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{},
		Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), theirs.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	if cgroup != "" {
		group, err := proctree.Cgroup{Path: cgroup}.Open()
		if err != nil {
			return nil, 0, errors.Join(fmt.Errorf("start runner: %w", err), conn.Close())
		}
		defer group.Close() // a directory
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(group.Fd())
	}
	pid := 0
	err = m.reaper.Start(func() (int, error) {
		var err error
		pid, err = syscall.ForkExec(proctree.Self, []string{"shellctl-runner"}, attr)
		return pid, err
	}, func(unix.WaitStatus) {}) // the end of its connection tells
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("start runner: %w", err), conn.Close())
	}
	return conn, pid, nil
}

// newCgroup makes the control group of a job where that is possible; empty: none.
func (m *Manager) newCgroup(id job.ID) string {
	if m.cgroups == "" {
		return ""
	}
	c, err := proctree.NewCgroup(m.cgroups, string(id))
	if err != nil {
		m.log.Warn("a job has no control group of its own", "job_id", id, "error", err)
		return ""
	}
	return c.Path
}

func (m *Manager) removeCgroup(row store.Row) {
	if row.Cgroup == "" {
		return
	}
	if err := (proctree.Cgroup{Path: row.Cgroup}).Remove(); err != nil {
		m.log.Warn("the control group of a job stays", "job_id", row.ID, "error", err)
	}
}

// controlPath is where the runner of a job listens.
func (m *Manager) controlPath(id job.ID) string {
	if m.cfg.RuntimeDir != "" {
		return filepath.Join(m.cfg.RuntimeDir, string(id)+".sock")
	}
	return filepath.Join(m.dir(id), job.ControlFile)
}
