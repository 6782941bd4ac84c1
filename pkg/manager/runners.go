package manager

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"shellctl/pkg/control"
	"shellctl/pkg/job"
	"shellctl/pkg/proctree"
	"shellctl/pkg/store"
)

// runner is a runner process that this server is connected to. Its attend
// goroutine owns the connection.
type runner struct {
	conn   *control.Conn
	pid    int
	start  uint64 // its start time; with the pid it identifies the process
	cgroup string // directory of the control group it was born in; empty: none
	mark   uint64 // of its next job

	mu   sync.Mutex
	job  *liveJob // nil: idle
	dead bool     // its connection has ended
}

// assign gives the runner its next job, or none. It reports false if the runner
// is gone: then nobody would find out what becomes of the job.
func (r *runner) assign(j *liveJob) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.job = j
	return !r.dead
}

// die says that the connection has ended and returns the job that this concerns.
func (r *runner) die() *liveJob {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = true
	return r.job
}

func (r *runner) current() *liveJob {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.job
}

const (
	// maxIdleRunners bounds the runners that wait for a job, idleRunnerTime how
	// long one does: a server at rest has none.
	maxIdleRunners = 8
	idleRunnerTime = 5 * time.Second
)

// pool holds the runners whose job has left nothing behind and that wait for
// another, the one that was used last at the end. Starting a process is the
// dearest part of a job.
type pool struct {
	mu     sync.Mutex
	closed bool
	idle   []*runner
	expiry map[*runner]*time.Timer
	stale  []string // control groups in which something outlives its job
}

// getRunner returns a runner without a job.
func (m *Manager) getRunner() (*runner, error) {
	m.pool.mu.Lock()
	if n := len(m.pool.idle); n > 0 {
		r := m.pool.idle[n-1]
		m.pool.remove(r)
		m.pool.mu.Unlock()
		return r, nil
	}
	m.pool.mu.Unlock()
	return m.spawn()
}

// putRunner keeps a runner for another job, or lets it go.
func (m *Manager) putRunner(r *runner) {
	alive := r.assign(nil)
	m.pool.mu.Lock()
	defer m.pool.mu.Unlock()
	if !alive || m.pool.closed || len(m.pool.idle) >= maxIdleRunners {
		_ = r.conn.Close() // it ends; attend sees it
		return
	}
	if m.pool.expiry == nil {
		m.pool.expiry = make(map[*runner]*time.Timer)
	}
	m.pool.idle = append(m.pool.idle, r)
	m.pool.expiry[r] = time.AfterFunc(idleRunnerTime, func() { m.dropRunner(r) })
}

// dropRunner ends a runner if it is idle. After the last one the server is at
// rest, or has nothing but long jobs.
func (m *Manager) dropRunner(r *runner) {
	m.pool.mu.Lock()
	found := m.pool.remove(r)
	last := len(m.pool.idle) == 0
	m.pool.mu.Unlock()
	if !found {
		return
	}
	_ = r.conn.Close() // it ends; attend sees it
	if last {
		rest()
	}
}

// rest gives back what the server does not need while it waits.
func rest() {
	debug.FreeOSMemory()
	proctree.DropProgram()
}

// remove takes a runner out of the pool and reports whether it was there. The
// lock must be held.
func (p *pool) remove(r *runner) bool {
	i := slices.Index(p.idle, r)
	if i < 0 {
		return false
	}
	p.idle = slices.Delete(p.idle, i, i+1)
	p.expiry[r].Stop()
	delete(p.expiry, r)
	return true
}

// closeTime is how long a stopping server waits for its idle runners to end.
const closeTime = time.Second

// closePool ends all idle runners, and those that would become idle.
func (m *Manager) closePool() {
	m.pool.mu.Lock()
	m.pool.closed = true
	idle := slices.Clone(m.pool.idle)
	for _, r := range idle {
		m.pool.remove(r)
		_ = r.conn.Close() // it ends; attend sees it
	}
	m.pool.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	for _, r := range idle {
		if awaitExit(ctx, r.pid, r.start) {
			m.removeCgroup(r.cgroup)
		}
	}
}

// attend hears what a runner says until its connection ends.
func (m *Manager) attend(r *runner) {
	for {
		msg, err := r.conn.Receive()
		if err != nil {
			break
		}
		j := r.current()
		switch {
		case j == nil || msg.Job != j.row.ID:
			// of a job that is over, or the greeting of an idle runner
		case msg.Kind == control.KindExited && msg.Exit != nil:
			if j.state().exit == nil { // a runner that is found again may say it twice
				m.ended(j, *msg.Exit)
			}
		case msg.Kind == control.KindIdle:
			r.mark--
			m.putRunner(r)
		default:
			j.hear(msg)
		}
	}
	_ = r.conn.Close() // ended already
	m.gone(r)
	m.dropRunner(r)
}

// gone finds out what became of the job of a runner that hung up.
func (m *Manager) gone(r *runner) {
	if j := r.die(); j != nil && j.state().exit == nil && m.ctx.Err() == nil {
		if exit := m.vanished(j); exit != nil {
			m.ended(j, *exit)
		}
	}
	if r.cgroup != "" && awaitExit(m.ctx, r.pid, r.start) {
		m.removeCgroup(r.cgroup)
	}
}

// spawn starts a runner in a session of its own. It has no data in its arguments
// and an empty environment; all it needs comes through the connection. It is born
// in a control group where the server may make one.
func (m *Manager) spawn() (_ *runner, err error) {
	r := &runner{mark: newMark(), cgroup: m.newCgroup()}
	defer func() {
		if err != nil {
			err = fmt.Errorf("start runner: %w", err)
			m.removeCgroup(r.cgroup)
		}
	}()
	conn, theirs, err := control.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close() // the runner has its copy
	r.conn = conn
	if r.pid, err = m.fork(r.cgroup, theirs); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if st, err := proctree.ReadStat(r.pid); err == nil {
		r.start = st.Start // else it is gone already, as attend will see
	}
	m.wg.Go(func() { m.attend(r) })
	_ = conn.Send(control.Message{Kind: control.KindHello, Version: control.Version}) // attend sees a failure
	return r, nil
}

// fork starts the process of a runner.
func (m *Manager) fork(cgroup string, control *os.File) (int, error) {
	attr := syscall.ProcAttr{
		Dir: "/",
		Env: []string{"GOMAXPROCS=1"}, // one thing at a time is all that a runner does
		Sys: &syscall.SysProcAttr{Setsid: true},
	}
	if cgroup != "" {
		group, err := proctree.Cgroup{Path: cgroup}.Open()
		if err != nil {
			return 0, err
		}
		defer group.Close() // a directory
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(group.Fd())
	}
	ended := func(unix.WaitStatus) {} // the end of its connection tells
	return m.reaper.StartSelf([]string{"shellctl-runner"}, attr, ended, control)
}

// newMark returns a mark for the first job of a runner; those of its later ones
// count down, as the limit that carries it can only be lowered.
func newMark() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand aborts the program instead
	return binary.LittleEndian.Uint64(b[:])>>2 | 1<<62
}

// newCgroup makes a control group where that is possible; empty: none.
func (m *Manager) newCgroup() string {
	if m.cgroups == "" {
		return ""
	}
	c, err := proctree.NewCgroup(m.cgroups, string(job.NewID()))
	if err != nil {
		m.log.Warn("a job has no control group of its own", "error", err)
		return ""
	}
	return c.Path
}

// removeCgroup removes the control group of a runner that is gone. One in which
// something outlives its job is tried again by sweepCgroups.
func (m *Manager) removeCgroup(path string) {
	if path == "" {
		return
	}
	removed, err := proctree.Cgroup{Path: path}.Remove()
	if err != nil {
		m.log.Warn("a control group stays", "path", path, "error", err)
		return
	}
	if !removed {
		m.pool.mu.Lock()
		m.pool.stale = append(m.pool.stale, path)
		m.pool.mu.Unlock()
	}
}

// sweepCgroups removes the control groups that have become empty.
func (m *Manager) sweepCgroups() {
	m.pool.mu.Lock()
	stale := m.pool.stale
	m.pool.stale = nil
	m.pool.mu.Unlock()
	for _, path := range stale {
		m.removeCgroup(path)
	}
}

// rediscover connects to the runner of a job that an earlier server started.
// It returns nil if it is not there.
func (m *Manager) rediscover(row store.Row) *runner {
	if row.BootID != m.boot || !proctree.Alive(row.RunnerPID, row.RunnerStart) {
		return nil
	}
	ctx, cancel := context.WithTimeout(m.ctx, dialTime)
	defer cancel()
	conn, err := control.Dial(ctx, row.ControlPath, row.RunnerPID)
	if err != nil {
		m.log.Warn("the runner of a job does not answer", "job_id", row.ID, "error", err)
		return nil
	}
	return &runner{conn: conn, pid: row.RunnerPID, start: row.RunnerStart, cgroup: row.Cgroup, mark: row.Mark}
}
