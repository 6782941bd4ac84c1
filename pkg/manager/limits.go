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

// enter counts one more job, if the limit, of which 0 is none, and the
// descriptors allow it.
func (s *slots) enter(limit int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit > 0 && s.n >= limit {
		return job.Errorf(job.CodeTooManyJobs, "%d jobs are running, and %s allows no more", s.n, config.EnvMaxRunningJobs)
	}
	if err := spareDescriptors(); err != nil {
		return err
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
