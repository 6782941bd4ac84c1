package manager

import (
	"context"
	"sync"
	"time"
)

// TerminateAll ends every running job, for a server that no job can outlive. A
// job that is not gone when ctx ends is left to its fate.
func (m *Manager) TerminateAll(ctx context.Context, grace time.Duration) {
	if m.opened(ctx) != nil {
		return // nothing was found, so nothing runs
	}
	m.mu.Lock()
	live := make([]*liveJob, 0, len(m.live))
	for _, j := range m.live {
		live = append(live, j)
	}
	m.mu.Unlock()
	var wg sync.WaitGroup
	for _, j := range live {
		wg.Go(func() { _ = m.terminate(ctx, j, grace) }) // fails with ctx only
	}
	wg.Wait()
}
