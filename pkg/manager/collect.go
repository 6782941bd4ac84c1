package manager

import (
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	"shellctl/pkg/job"
)

// collector knows which jobs have ended and when. Their age is counted by the
// monotonic clock while the server lives, so a step of the wall clock drops none.
type collector struct {
	leftover []fs.DirEntry      // job directories found at the start
	size     func(job.ID) int64 // of the outputs of a job, or nil if nobody needs to know

	mu     sync.Mutex
	ended  []endedJob // those that ended first come first
	bytes  int64      // of the outputs of those
	failed []*liveJob // ended, but not recorded yet
	wake   chan struct{}
}

type endedJob struct {
	id    job.ID
	at    time.Time // with a monotonic reading
	bytes int64     // of its outputs
}

// note says that a job has ended.
func (c *collector) note(id job.ID, at time.Time) {
	c.keep(endedJob{id, at, c.sizeOf(id)})
	c.poke()
}

// retry keeps a job whose end could not be recorded.
func (c *collector) retry(j *liveJob) {
	c.mu.Lock()
	c.failed = append(c.failed, j)
	c.mu.Unlock()
	c.poke()
}

// forget says that a job was deleted.
func (c *collector) forget(id job.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = slices.DeleteFunc(c.ended, func(e endedJob) bool {
		if e.id == id {
			c.bytes -= e.bytes
		}
		return e.id == id
	})
	c.failed = slices.DeleteFunc(c.failed, func(j *liveJob) bool { return j.row.ID == id })
}

func (c *collector) poke() {
	select {
	case c.wake <- struct{}{}:
	default: // it looks anyway
	}
}

// retryGap is the time between two tries to record an end on a full disk.
const retryGap = time.Second

// collect removes ended jobs after their retention, until the server ends. It
// sleeps until the first is due, and sweeps no more often than the interval.
func (m *Manager) collect() {
	m.clearLeftover(m.loadEnded())
	m.sweepSurplus()
	rest() // what the start took
	timer := time.NewTimer(0)
	defer timer.Stop()
	last := time.Now().Add(-m.cfg.GCInterval) // the first sweep may come at once
	for {
		if next := m.gc.next(m.cfg.GCRetention, last.Add(m.cfg.GCInterval)); next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
		select {
		case <-timer.C:
			m.retryFailed()
			if now := time.Now(); !now.Before(last.Add(m.cfg.GCInterval)) {
				last = now
				m.sweep(now)
				m.sweepCgroups()
			}
		case <-m.gc.wake:
			m.sweepSurplus()
		case <-m.ctx.Done():
			return
		}
	}
}

// next returns when there is something to do, zero for never.
func (c *collector) next(retention time.Duration, earliest time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	var at time.Time
	if len(c.ended) > 0 {
		at = c.ended[0].at.Add(retention)
		if at.Before(earliest) {
			at = earliest
		}
	}
	if len(c.failed) > 0 {
		if again := time.Now().Add(retryGap); at.IsZero() || again.Before(at) {
			at = again
		}
	}
	return at
}

// sweep removes the jobs that ended long enough ago.
func (m *Manager) sweep(now time.Time) {
	m.gc.mu.Lock()
	n := 0
	for n < len(m.gc.ended) && now.Sub(m.gc.ended[n].at) >= m.cfg.GCRetention {
		n++
	}
	due := m.gc.take(n)
	m.gc.mu.Unlock()
	m.drop(due, now)
}

// drop removes jobs; those that can not be removed count as ended at now.
func (m *Manager) drop(due []endedJob, now time.Time) {
	for _, e := range due {
		if m.ctx.Err() != nil {
			return
		}
		if err := m.delete(nil, e.id, 0); err != nil && !isCode(err, job.CodeJobNotFound) {
			m.log.Warn("an old job could not be removed", "job_id", e.id, "error", err)
			e.at = now
			m.gc.keep(e)
		}
	}
}

// retryFailed tries again to record ends.
func (m *Manager) retryFailed() {
	m.gc.mu.Lock()
	failed := m.gc.failed
	m.gc.failed = nil
	m.gc.mu.Unlock()
	for _, j := range failed {
		if _, ok := m.record(j.row.ID, *j.state().exit); !ok {
			m.gc.retry(j)
			continue
		}
		m.remove(j)
		m.gc.note(j.row.ID, time.Now())
	}
}

// loadEnded takes over the jobs that ended under an earlier server. How long ago
// is only known by the wall clock; if that says the future, they ended just now.
// It returns all jobs known to have ended.
func (m *Manager) loadEnded() map[job.ID]bool {
	rows, err := m.store.Ended(m.ctx)
	if err != nil {
		m.log.Error("ended jobs could not be listed", "error", err)
		return nil
	}
	now := time.Now()
	sizes := m.gc.sizes(rows)
	m.gc.mu.Lock()
	defer m.gc.mu.Unlock()
	known := make(map[job.ID]bool, len(m.gc.ended))
	for _, e := range m.gc.ended {
		known[e.id] = true
	}
	old := make([]endedJob, 0, len(rows)+len(m.gc.ended))
	for _, r := range rows {
		if !known[r.ID] {
			old = append(old, endedJob{r.ID, now.Add(-min(max(0, now.Sub(r.At)), m.cfg.GCRetention)), sizes[r.ID]})
			m.gc.bytes += sizes[r.ID]
		}
	}
	m.gc.ended = append(old, m.gc.ended...)
	for _, r := range rows {
		known[r.ID] = true
	}
	return known
}

// clearLeftover removes what an earlier server left in the directory of jobs
// without a row: it was killed while it made a job, or deleted one.
func (m *Manager) clearLeftover(ended map[job.ID]bool) {
	for _, e := range m.gc.leftover {
		if m.ctx.Err() != nil {
			return
		}
		id := job.ID(e.Name())
		if ended[id] {
			continue
		}
		if !id.Valid() {
			continue // not ours
		}
		if _, err := m.store.Get(m.ctx, id); !isCode(err, job.CodeJobNotFound) {
			continue
		}
		if err := m.removeFiles(id); err != nil {
			m.log.Warn("the leftover of a job could not be removed", "job_id", id, "error", err)
		}
	}
}

func isCode(err error, code job.Code) bool {
	e, ok := errors.AsType[*job.Error](err)
	return ok && e.Code == code
}
