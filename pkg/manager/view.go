package manager

import (
	"context"
	"os"
	"time"

	"shellctl/pkg/job"
	"shellctl/pkg/store"
)

// View is the state of a job without its output.
type View struct {
	ID       job.ID
	Status   job.Status
	ExitCode *int
	Created  time.Time
	Started  time.Time // zero: not yet
	Ended    time.Time // zero: not yet
	Size     int64     // of the output
}

// Status returns the state of a job.
func (m *Manager) Status(ctx context.Context, id job.ID) (View, error) {
	j, row, err := m.lookup(ctx, id)
	if err != nil {
		return View{}, err
	}
	return m.view(j, row), nil
}

// List returns up to limit jobs, the newest first; an empty status means all.
func (m *Manager) List(ctx context.Context, status job.Status, limit int) ([]View, error) {
	if err := m.opened(ctx); err != nil {
		return nil, err
	}
	rows, err := m.store.List(ctx, status, limit)
	if err != nil {
		return nil, err
	}
	views := make([]View, 0, len(rows))
	for _, row := range rows {
		v := rowView(row)
		if j := m.find(row.ID); j != nil {
			v = liveView(j)
		}
		if status == "" || v.Status == status {
			views = append(views, v)
		}
	}
	return views, nil
}

// view is the state of a job, live or, if j is nil, as its row tells.
func (m *Manager) view(j *liveJob, row store.Row) View {
	v := rowView(row)
	if j != nil {
		v = liveView(j)
	}
	if st, err := os.Stat(m.OutputPath(v.ID)); err == nil {
		v.Size = st.Size() // else deleted this moment, or never made: 0
	}
	return v
}

func rowView(r store.Row) View {
	return View{ID: r.ID, Status: r.Status, ExitCode: r.ExitCode, Created: r.Created, Started: r.Started, Ended: r.Ended}
}

func liveView(j *liveJob) View {
	v := rowView(j.row)
	if e := j.state().exit; e != nil {
		v.Status, v.ExitCode, v.Ended = e.Status, e.Code, e.EndedAt
	}
	return v
}
