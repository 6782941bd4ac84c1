package manager

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shellctl/pkg/config"
	"shellctl/pkg/isolation"
	"shellctl/pkg/job"
	"shellctl/pkg/store"
)

// site is a state directory with the record and directories of jobs.
type site struct {
	t     testing.TB
	dir   string
	store *store.Store
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir()}
	var err error
	if s.store, err = store.Open(t.Context(), s.dir, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	return s
}

// ended adds a job that has ended at a time, with so many bytes of output.
func (s *site) ended(n int, at time.Time, bytes int) job.ID {
	s.t.Helper()
	id := job.ID(fmt.Sprintf("%016x", n))
	code := 0
	row := store.Row{ID: id, Mode: job.ModeStdio, Cwd: "/", Status: job.StatusExited, ExitCode: &code, Created: at, Started: at, Ended: at}
	if err := s.store.Insert(s.t.Context(), row); err != nil {
		s.t.Fatal(err)
	}
	dir := filepath.Join(s.dir, jobsDir, string(id))
	if err := os.MkdirAll(dir, dirMode); err != nil {
		s.t.Fatal(err)
	}
	for _, name := range []string{job.OutputFile, job.StderrFile} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, bytes/2), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	return id
}

// manager takes the directory over, without the goroutine of the collector.
func (s *site) manager(limits config.Limits, retention time.Duration) *Manager {
	s.t.Helper()
	if err := s.store.Close(); err != nil {
		s.t.Fatal(err)
	}
	m, err := New(config.Server{StateDir: s.dir, Limits: limits, GCRetention: retention}, isolation.Policy{}, slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatal(err)
	}
	if m.store, err = store.Open(s.t.Context(), s.dir, m.log); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		close(m.ready)
		if err := m.Close(); err != nil {
			s.t.Error(err)
		}
	})
	m.loadEnded()
	return m
}

// left returns the jobs that are in the record and on the disk.
func left(t testing.TB, m *Manager) []job.ID {
	t.Helper()
	rows, err := m.store.Ended(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var ids []job.ID
	for _, r := range rows {
		ids = append(ids, r.ID)
	}
	entries, err := os.ReadDir(filepath.Join(m.cfg.StateDir, jobsDir))
	if err != nil || len(entries) != len(ids) {
		t.Errorf("%d directories, %d rows: %v", len(entries), len(ids), err)
	}
	return ids
}

// TestSurplus: what is above a limit goes, those that ended first before the
// others, whether they ended under this server or an earlier one.
func TestSurplus(t *testing.T) {
	hour := time.Now().Add(-time.Hour)
	for _, c := range []struct {
		limits config.Limits
		stay   int
	}{
		{config.Limits{}, 8},
		{config.Limits{MaxRecords: 8}, 8},
		{config.Limits{MaxRecords: 3}, 3},
		{config.Limits{MaxRecords: 1}, 1},
		{config.Limits{MaxLogBytes: 800}, 8},
		{config.Limits{MaxLogBytes: 799}, 7},
		{config.Limits{MaxLogBytes: 250}, 2},
		{config.Limits{MaxLogBytes: 1}, 1}, // the last one stays
		{config.Limits{MaxRecords: 5, MaxLogBytes: 600}, 5},
		{config.Limits{MaxRecords: 6, MaxLogBytes: 500}, 5},
	} {
		s := newSite(t)
		var all []job.ID
		for i := range 8 {
			all = append(all, s.ended(i, hour.Add(time.Duration(i)*time.Second), 100))
		}
		m := s.manager(c.limits, 2*time.Hour)
		m.sweepSurplus()
		if got := left(t, m); !slices.Equal(got, all[8-c.stay:]) {
			t.Errorf("%+v: left %v", c.limits, got)
		}
		if c.limits.MaxLogBytes > 0 && m.gc.bytes != int64(100*c.stay) {
			t.Errorf("%+v: %d bytes are counted", c.limits, m.gc.bytes)
		}
	}
}

// TestSurplusOfOthers: a job that a client removed makes room, one that can not
// be removed does not stop the collector.
func TestSurplusOfOthers(t *testing.T) {
	s := newSite(t)
	at := time.Now().Add(-time.Minute)
	ids := []job.ID{s.ended(1, at, 100), s.ended(2, at.Add(time.Second), 100), s.ended(3, at.Add(2*time.Second), 100)}
	m := s.manager(config.Limits{MaxLogBytes: 200}, time.Hour)
	if err := m.delete(nil, ids[1], 0); err != nil {
		t.Fatal(err)
	}
	if m.sweepSurplus(); len(left(t, m)) != 2 || m.gc.bytes != 200 {
		t.Errorf("left %v, %d bytes", left(t, m), m.gc.bytes)
	}
	m.gc.note(ids[1], time.Now()) // has no row and no bytes any more
	if m.sweepSurplus(); len(left(t, m)) != 2 {
		t.Errorf("left %v", left(t, m))
	}
}

// TestClockSteps: the age of what ended under this server is that of the
// monotonic clock. Of what ended before it only the wall clock tells: a job of
// the future has ended just now, one of the past is due, and neither sooner nor
// later than that.
func TestClockSteps(t *testing.T) {
	const retention = time.Hour
	s := newSite(t)
	now := time.Now()
	past := s.ended(1, now.Add(-24*time.Hour), 0)
	young := s.ended(2, now.Add(-retention/2), 0)
	future := s.ended(3, now.Add(24*time.Hour), 0)
	m := s.manager(config.Limits{}, retention)
	m.sweep(now.Add(time.Minute))
	if got := left(t, m); !slices.Equal(got, []job.ID{young, future}) {
		t.Errorf("at first left %v, not %s", got, past)
	}
	m.sweep(now.Add(retention * 3 / 4))
	if got := left(t, m); !slices.Equal(got, []job.ID{future}) {
		t.Errorf("then left %v", got)
	}
	m.gc.note(young, time.Now())
	for _, e := range m.gc.ended {
		if !strings.Contains(e.at.String(), " m=") {
			t.Errorf("the age of %s follows the wall clock: %v", e.id, e.at)
		}
	}
	if next := m.gc.next(retention, now); next.After(now.Add(retention + time.Minute)) {
		t.Errorf("the next sweep is at %v", next)
	}
	m.sweep(now.Add(retention + time.Minute))
	if got := left(t, m); len(got) != 0 {
		t.Errorf("at last left %v", got)
	}
}
