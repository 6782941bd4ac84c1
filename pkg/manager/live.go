package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"shellctl/pkg/control"
	"shellctl/pkg/job"
	"shellctl/pkg/proctree"
	"shellctl/pkg/store"
)

// liveJob is a job without a recorded end.
type liveJob struct {
	row    store.Row // as inserted; status and end are below
	runner *runner   // nil: it was not found again

	mu      sync.Mutex
	started bool
	drain   bool      // the script has exited, the end of the job is near
	size    int64     // of the output, as the runner told
	grown   time.Time // when it last grew
	exit    *job.Exit // nil: not ended
	changed chan struct{}
	stopped bool // by us, since it did not answer
	nextID  uint64
	inputs  map[uint64]chan control.Message
}

func newLive(row store.Row, r *runner) *liveJob {
	return &liveJob{row: row, runner: r, changed: make(chan struct{}), inputs: make(map[uint64]chan control.Message)}
}

// change runs f under the lock and wakes all waiters.
func (j *liveJob) change(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f()
	close(j.changed)
	j.changed = make(chan struct{})
}

// state is what a waiter looks at; changed is closed when it is no longer true.
type state struct {
	started bool
	drain   bool
	exit    *job.Exit
	size    int64
	grown   time.Time
	changed <-chan struct{}
}

func (j *liveJob) state() state {
	j.mu.Lock()
	defer j.mu.Unlock()
	return state{j.started, j.drain, j.exit, j.size, j.grown, j.changed}
}

// await waits until cond holds or ctx ends.
func (j *liveJob) await(ctx context.Context, cond func(state) bool) error {
	for {
		s := j.state()
		if cond(s) {
			return nil
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tell sends to the runner. A failure, and a runner that was never found, is what
// attend or vanished finds out.
func (j *liveJob) tell(m control.Message) {
	if j.runner != nil {
		m.Job = j.row.ID
		_ = j.runner.conn.Send(m) // see above
	}
}

// hear takes in what the runner says of the job while it runs.
func (j *liveJob) hear(msg control.Message) {
	switch msg.Kind {
	case control.KindHello:
		j.change(func() {
			j.started = j.started || msg.Running
			j.drain = j.drain || msg.Drain
			j.size = max(j.size, msg.Size)
		})
	case control.KindStarted:
		j.change(func() { j.started = true })
	case control.KindDraining:
		j.change(func() { j.drain = true })
	case control.KindSize:
		j.change(func() {
			j.size = msg.Size
			j.grown = time.Now()
		})
	case control.KindInputDone:
		j.answer(msg)
	}
}

// ended records the end of a job and then wakes its waiters: whoever sees the
// end finds it in the record.
func (m *Manager) ended(j *liveJob, exit job.Exit) {
	if exit.EndedAt.Before(j.row.Started) {
		exit.EndedAt = j.row.Started // as the record has it: the wall clock was set back
	}
	exit, recorded := m.record(j.row.ID, exit)
	m.running.leave() // before a waiter hears of it and starts the next
	j.tell(control.Message{Kind: control.KindRecorded})
	j.change(func() {
		j.exit = &exit
		for id, c := range j.inputs {
			delete(j.inputs, id)
			close(c)
		}
	})
	if recorded {
		m.remove(j)
		m.gc.note(j.row.ID, time.Now())
	} else {
		m.gc.retry(j) // until then the job is answered for from memory
	}
	m.log.Debug("job ended", "job_id", j.row.ID, "status", exit.Status, "reason", exit.Reason)
}

// record writes the end into the record and returns the one that stands there:
// the first, whoever wrote it. It reports false if the record could not be
// written; the end is then still in the job's directory and in memory.
func (m *Manager) record(id job.ID, exit job.Exit) (job.Exit, bool) {
	ctx := context.WithoutCancel(m.ctx)
	first, err := m.store.Finish(ctx, id, exit)
	if err != nil {
		m.log.Error("the end of a job could not be recorded", "job_id", id, "error", err)
		return exit, false
	}
	if first {
		return exit, true
	}
	row, err := m.store.Get(ctx, id)
	if err != nil {
		return exit, true // deleted meanwhile
	}
	return *rowExit(row), true
}

// vanished finds out what became of a job whose runner hung up without a word.
func (m *Manager) vanished(j *liveJob) *job.Exit {
	// A runner may leave its exit and live on for what outlived its job.
	if exit, err := readExit(m.dir(j.row.ID)); err == nil {
		return &exit
	}
	// Else it may be about to leave one: that it left none counts only once it is gone.
	if !awaitExit(m.ctx, j.row.RunnerPID, j.row.RunnerStart) {
		return nil
	}
	if exit, err := readExit(m.dir(j.row.ID)); err == nil {
		return &exit
	} else if !errors.Is(err, os.ErrNotExist) {
		m.log.Warn("the exit that a runner left can not be read", "job_id", j.row.ID, "error", err)
	}
	m.killLost(j)
	if j.isStopped() {
		return &job.Exit{Status: job.StatusTerminated, Reason: job.ReasonTerminated, EndedAt: job.Now()}
	}
	reason := job.ReasonRunnerLost
	if j.row.BootID != m.boot {
		reason = job.ReasonRebooted
	}
	m.log.Warn("a job was lost", "job_id", j.row.ID, "reason", reason)
	return &job.Exit{Status: job.StatusLost, Reason: reason, EndedAt: job.Now()}
}

// lostKillTime bounds the clearing up after one job; a process in an
// uninterruptible wait can not be killed yet.
const lostKillTime = 10 * time.Second

// killLost kills what is left of a job whose runner was killed: nobody can read
// its output or stop it any more.
func (m *Manager) killLost(j *liveJob) {
	if j.row.BootID != m.boot {
		return // nothing outlives a boot, and its numbers are new ones
	}
	if j.row.Cgroup != "" {
		g := proctree.Cgroup{Path: j.row.Cgroup}
		if err := g.Kill(); err != nil {
			m.log.Warn("the control group of a lost job could not be killed", "job_id", j.row.ID, "error", err)
		}
		defer m.removeCgroup(j.row.Cgroup)
	}
	ctx, cancel := context.WithTimeout(m.ctx, lostKillTime)
	defer cancel()
	if err := proctree.KillMarked(ctx, j.row.Mark); err != nil {
		m.log.Warn("processes of a lost job are left", "job_id", j.row.ID, "error", err)
	}
}

// awaitExit waits until the process that started at start is gone. It reports
// false if ctx ends before.
func awaitExit(ctx context.Context, pid int, start uint64) bool {
	p, err := proctree.Watch(pid, start)
	if err != nil || p == nil {
		return true // gone
	}
	return p.Wait(ctx) == nil
}

// readExit reads the end that a runner left in its job's directory.
func readExit(dir string) (job.Exit, error) {
	b, err := os.ReadFile(filepath.Join(dir, job.ExitFile))
	if err != nil {
		return job.Exit{}, fmt.Errorf("read exit: %w", err)
	}
	var e job.Exit
	if err := json.Unmarshal(b, &e); err != nil {
		return job.Exit{}, fmt.Errorf("decode exit: %w", err)
	}
	if !e.Status.Terminal() {
		return job.Exit{}, fmt.Errorf("decode exit: status %q", e.Status)
	}
	return e, nil
}
