package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"shellctl/pkg/control"
	"shellctl/pkg/job"
	"shellctl/pkg/proctree"
	"shellctl/pkg/store"
)

// Terminate ends a running job and all its processes: Ctrl-C, then SIGTERM and
// SIGHUP, then SIGKILL at the end of the grace. It answers as soon as nothing of
// the job is left. A job that has ended stays as it is.
func (m *Manager) Terminate(ctx context.Context, id job.ID, grace time.Duration) (View, error) {
	j, row, err := m.lookup(ctx, id)
	if err != nil {
		return View{}, err
	}
	if j == nil {
		return m.view(nil, row), nil
	}
	if err := m.terminate(ctx, j, grace); err != nil {
		return View{}, err
	}
	return m.view(j, store.Row{}), nil
}

// stopMargin is how much longer than the grace a runner may take before its
// server takes over. Clients give up 5 s after the grace.
const stopMargin = 3 * time.Second

// terminate has the runner end the job and waits for the end. The job is ended
// also if ctx ends first.
func (m *Manager) terminate(ctx context.Context, j *liveJob, grace time.Duration) error {
	if err := j.await(ctx, func(s state) bool { return s.started || s.exit != nil }); err != nil {
		return err
	}
	j.tell(control.Message{Kind: control.KindTerminate, Limit: grace})
	m.wg.Go(func() { m.enforce(j, grace+stopMargin) })
	return j.await(ctx, func(s state) bool { return s.exit != nil })
}

// enforce kills a runner that has not ended its job in time, stuck or stopped.
func (m *Manager) enforce(j *liveJob, limit time.Duration) {
	ctx, cancel := context.WithTimeout(m.ctx, limit)
	defer cancel()
	err := j.await(ctx, func(s state) bool { return s.exit != nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		return
	}
	m.log.Warn("a runner did not end its job in time and is killed", "job_id", j.row.ID)
	j.change(func() { j.stopped = true })
	p, err := proctree.Watch(j.row.RunnerPID, j.row.RunnerStart)
	if err != nil || p == nil {
		return // gone, as attend sees
	}
	if err := p.Signal(unix.SIGKILL); err != nil {
		m.log.Error("a runner could not be killed", "job_id", j.row.ID, "error", err)
	}
	_ = p.Close() // nothing was written
}

func (j *liveJob) isStopped() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stopped
}

// Delete removes an ended job: its row, then its directory. With force, a
// running one is terminated first. A client that goes away does not stop it.
func (m *Manager) Delete(ctx context.Context, id job.ID, force bool, grace time.Duration) error {
	j, _, err := m.lookup(ctx, id)
	if err != nil {
		return err
	}
	if j != nil && j.state().exit == nil && !force {
		return job.Errorf(job.CodeJobRunning, "Job %s is still running", id)
	}
	done := make(chan error, 1)
	m.wg.Go(func() { done <- m.delete(j, id, grace) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// delete does the work of Delete; j is nil for a job that has ended.
func (m *Manager) delete(j *liveJob, id job.ID, grace time.Duration) error {
	if j != nil {
		if err := m.terminate(m.ctx, j, grace); err != nil {
			return err
		}
	}
	existed, err := m.store.Delete(context.WithoutCancel(m.ctx), id)
	if err != nil {
		return err
	}
	if j != nil {
		m.remove(j) // if its end could not be recorded
	}
	m.gc.forget(id)
	if !existed {
		return job.Unknown() // by another call
	}
	return m.removeFiles(id)
}

// removeFiles removes the directory of a job and its control socket.
func (m *Manager) removeFiles(id job.ID) error {
	if err := os.RemoveAll(m.dir(id)); err != nil {
		return fmt.Errorf("remove job directory: %w", err)
	}
	if m.cfg.RuntimeDir == "" {
		return nil // it lay in there
	}
	if err := os.Remove(m.controlPath(id)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove control socket: %w", err)
	}
	return nil
}
