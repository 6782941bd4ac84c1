package manager

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"shellctl/pkg/control"
	"shellctl/pkg/proctree"
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
	j := newLive(row, m.dial(row))
	m.add(j)
	m.running.add()
	if j.conn == nil {
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
	j.tell(control.Message{Kind: control.KindHello, Version: control.Version})
	m.wg.Go(func() { m.follow(j) })
	m.log.Info("found a running job again", "job_id", row.ID)
}

// dial returns a connection to the runner of a row, nil if it is not there.
func (m *Manager) dial(row store.Row) *control.Conn {
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
	return conn
}
