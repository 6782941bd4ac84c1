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

	"shellctl/pkg/control"
	"shellctl/pkg/job"
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
		_ = s.File.Close() // not wanted any more
		// The clean-up at the next start takes what stays.
		_ = os.Remove(s.File.Name())
		_ = os.Remove(filepath.Dir(s.File.Name()))
	}
}

// Spill makes a file for a script that is too large to hold in memory. It is in
// its place already: in the directory of the job to come.
func (m *Manager) Spill() (*os.File, error) {
	// Not before recovery has taken the names of what an earlier server left.
	if err := m.opened(m.ctx); err != nil {
		return nil, err
	}
	id, err := m.makeDir()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(m.scriptPath(id), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make script file: %w", err), os.Remove(m.dir(id)))
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
	if err := m.admit(); err != nil {
		r.Script.Discard()
		return nil, err
	}
	id, err := m.place(r.Script)
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

// makeDir makes the directory of a new job.
func (m *Manager) makeDir() (job.ID, error) {
	for try := 0; ; try++ {
		id := job.NewID()
		err := os.Mkdir(m.dir(id), dirMode)
		if err == nil {
			return id, nil
		}
		if !errors.Is(err, fs.ErrExist) || try == idTries {
			return "", fmt.Errorf("make job directory: %w", err)
		}
	}
}

func (m *Manager) scriptPath(id job.ID) string { return filepath.Join(m.dir(id), job.ScriptFile) }

// place makes the directory of a new job with its script, where Spill has not.
func (m *Manager) place(s Script) (id job.ID, err error) {
	if s.File != nil {
		id = job.ID(filepath.Base(filepath.Dir(s.File.Name())))
	} else if id, err = m.makeDir(); err != nil {
		return "", err
	}
	if err := m.putScript(id, s); err != nil {
		return "", errors.Join(err, os.RemoveAll(m.dir(id)))
	}
	return id, nil
}

func (m *Manager) putScript(id job.ID, s Script) error {
	mode := os.FileMode(0o600)
	direct := isShebang(s)
	if direct {
		mode = 0o700
	}
	if s.File == nil {
		if err := os.WriteFile(m.scriptPath(id), s.Text, mode); err != nil {
			return fmt.Errorf("write script: %w", err)
		}
	} else if err := errors.Join(s.File.Chmod(mode), s.File.Close()); err != nil {
		return fmt.Errorf("write script: %w", err)
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
func (m *Manager) start(id job.ID, req Request, cwd string, env [][]byte, hash []byte) (*liveJob, error) {
	row := store.Row{
		ID: id, Mode: req.Mode, Cwd: cwd, Terminal: req.Terminal, Status: job.StatusRunning,
		Created: job.Now(), Started: job.Now(), BootID: m.boot, ControlPath: m.controlPath(id),
		RequestKey: req.Key, RequestHash: hash,
	}
	ctx := context.WithoutCancel(m.ctx)
	j, err := m.hire(ctx, row)
	if j == nil {
		return m.startFailed(ctx, row, err)
	}
	if err != nil {
		return nil, err
	}
	row = j.row
	start := control.Start{
		ID: id, Mode: req.Mode, Dir: m.dir(id), StateDir: m.cfg.StateDir, Control: row.ControlPath,
		ServerLock: filepath.Join(m.cfg.StateDir, lockFile),
		Cwd:        cwd, Env: env, Terminal: req.Terminal, Settings: m.cfg.Runner, Policy: m.policy, BusyTimeout: busyRunner,
		Cgroup: row.Cgroup, Mark: row.Mark,
	}
	j.tell(control.Message{Kind: control.KindStart, Start: &start})
	m.log.Debug("job started", "job_id", id, "mode", req.Mode, "runner", row.RunnerPID)
	return j, nil
}

// hire gets a runner for a job and records both. Without a runner it returns no
// job either.
func (m *Manager) hire(ctx context.Context, row store.Row) (*liveJob, error) {
	for {
		r, err := m.getRunner()
		if err != nil {
			return nil, err
		}
		row.RunnerPID, row.RunnerStart, row.Cgroup, row.Mark = r.pid, r.start, r.cgroup, r.mark
		j := newLive(row, r)
		if err := m.store.Insert(ctx, row); err != nil {
			m.putRunner(r) // it knows nothing of the job
			return j, err
		}
		m.add(j)
		if r.assign(j) {
			return j, nil
		}
		// It was killed while it was idle. It has not been told of the job, so
		// another can take it.
		m.remove(j)
		if _, err := m.store.Delete(ctx, row.ID); err != nil {
			return j, err
		}
	}
}

// startFailed records a job for which not even a runner could be started.
func (m *Manager) startFailed(ctx context.Context, row store.Row, cause error) (*liveJob, error) {
	m.log.Error("a job could not be started", "job_id", row.ID, "error", cause)
	exit := job.StartFailed(cause)
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

// controlPath is where the runner of a job listens, and a dead socket stays.
func (m *Manager) controlPath(id job.ID) string {
	if m.cfg.RuntimeDir != "" {
		return filepath.Join(m.cfg.RuntimeDir, string(id)+".sock")
	}
	return filepath.Join(m.dir(id), job.ControlFile)
}
