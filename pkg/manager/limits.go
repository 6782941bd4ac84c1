package manager

import (
	"sync"

	"shellctl/pkg/config"
	"shellctl/pkg/job"
)

// slots counts the jobs that run, from before anything of one is made until its
// end is known.
type slots struct {
	mu sync.Mutex
	n  int
}

// admit counts one more job, if the limit of jobs and the descriptors allow it.
func (m *Manager) admit() error {
	if !m.pool.waits() { // a runner that waits has its descriptor already
		if err := spareDescriptors(); err != nil {
			return err
		}
	}
	return m.running.enter(m.cfg.Limits.MaxRunningJobs)
}

// waits reports whether a runner waits for a job.
func (p *pool) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle) > 0
}

// enter counts one more job, if the limit allows it; 0 is no limit.
func (s *slots) enter(limit int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit > 0 && s.n >= limit {
		return job.Errorf(job.CodeTooManyJobs, "%d jobs are running, and %s allows no more", s.n, config.EnvMaxRunningJobs)
	}
	s.n++
	return nil
}

// add counts a job that runs already, also above the limit.
func (s *slots) add() {
	s.mu.Lock()
	s.n++
	s.mu.Unlock()
}

func (s *slots) leave() {
	s.mu.Lock()
	s.n--
	s.mu.Unlock()
}
