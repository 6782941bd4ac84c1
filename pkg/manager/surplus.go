package manager

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"shellctl/pkg/config"
	"shellctl/pkg/job"
	"shellctl/pkg/store"
)

// sweepSurplus removes the jobs above the limits of what is kept, those that
// ended first. One that can not be removed is tried again after the next end.
func (m *Manager) sweepSurplus() { m.drop(m.gc.surplus(m.cfg.Limits), time.Now()) }

// surplus takes out the jobs above the limits. The one that ended last stays,
// however large its outputs: its client is most likely still to come for them.
func (c *collector) surplus(l config.Limits) []endedJob {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, bytes := 0, c.bytes
	for left := len(c.ended); left > 1; left-- {
		many := l.MaxRecords > 0 && left > l.MaxRecords
		large := l.MaxLogBytes > 0 && bytes > l.MaxLogBytes
		if !many && !large {
			break
		}
		bytes -= c.ended[n].bytes
		n++
	}
	return c.take(n)
}

// take takes out the first n. The lock is held.
func (c *collector) take(n int) []endedJob {
	out := slices.Clone(c.ended[:n])
	for _, e := range out {
		c.bytes -= e.bytes
	}
	clear(c.ended[:n])
	c.ended = c.ended[n:] // append makes room again, without moving all at each end
	return out
}

// keep adds a job as the one that ended last.
func (c *collector) keep(e endedJob) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = append(c.ended, e)
	c.bytes += e.bytes
}

func (c *collector) sizeOf(id job.ID) int64 {
	if c.size == nil {
		return 0
	}
	return c.size(id)
}

// sizes looks up the outputs of jobs that ended under an earlier server.
func (c *collector) sizes(rows []store.Ended) map[job.ID]int64 {
	if c.size == nil {
		return nil
	}
	sizes := make(map[job.ID]int64, len(rows))
	for _, r := range rows {
		sizes[r.ID] = c.size(r.ID)
	}
	return sizes
}

// outputBytes is what the outputs of a job take on the disk.
func (m *Manager) outputBytes(id job.ID) int64 {
	var n int64
	for _, name := range []string{job.OutputFile, job.StderrFile} {
		if st, err := os.Lstat(filepath.Join(m.dir(id), name)); err == nil {
			n += st.Size() // else there is none
		}
	}
	return n
}
