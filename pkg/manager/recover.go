package manager

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"shellctl/pkg/control"
	"shellctl/pkg/store"
)

// dialTime bounds the search for one runner.
const dialTime = 5 * time.Second

// recover finds the jobs that an earlier server left without an end.
func (m *Manager) recover() error {
	rows, err := m.store.Live(m.ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		m.recoverJob(row)
	}
	// Names are taken now, before new jobs make directories ahead of their rows.
	entries, err := os.ReadDir(filepath.Join(m.cfg.StateDir, jobsDir))
	if err != nil {
		return fmt.Errorf("list job directories: %w", err)
	}
	m.gc.leftover = entries
	return nil
}

// recoverJob takes up the connection to a runner, or finds out what became of it.
func (m *Manager) recoverJob(row store.Row) {
	j := newLive(row, m.rediscover(row))
	m.add(j)
	m.running.add()
	if j.runner == nil {
		m.wg.Go(func() {
			if exit := m.vanished(j); exit != nil {
				m.ended(j, *exit)
			}
		})
		return
	}
	if st, err := os.Stat(m.OutputPath(row.ID)); err == nil {
		j.size = st.Size() // until the runner tells
	}
	j.runner.assign(j)
	j.tell(control.Message{Kind: control.KindHello, Version: control.Version})
	m.wg.Go(func() { m.attend(j.runner) })
	m.log.Info("found a running job again", "job_id", row.ID)
}
