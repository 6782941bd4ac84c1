package store

import (
	"testing"
	"time"

	"shellctl/pkg/job"
)

// The wall clock may be set back while a job runs: its end is never before its start.
func TestEndIsNotBeforeStart(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	start := time.Unix(1_700_000_000, 0).UTC()
	for i, c := range []struct{ started, ended, want time.Time }{
		{start, start.Add(-24 * time.Hour), start},
		{start, start.Add(24 * time.Hour), start.Add(24 * time.Hour)},
		{start, start, start},
		{time.Time{}, start, start},
	} {
		r := running(number(i))
		r.Started = c.started
		mustInsert(t, s, r)
		if won, err := s.Finish(t.Context(), r.ID, job.Exit{Status: job.StatusExited, EndedAt: c.ended}); !won || err != nil {
			t.Fatal(won, err)
		}
		if got, err := s.Get(t.Context(), r.ID); err != nil || !got.Ended.Equal(c.want) {
			t.Errorf("started %v, ended %v: recorded %v, %v, want %v", c.started, c.ended, got.Ended, err, c.want)
		}
	}
}
