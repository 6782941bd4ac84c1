package applets_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"shellctl/pkg/proctree"
)

// level is what a server takes.
type level struct {
	rss       int64 // KiB
	fds       int64
	threads   int64
	processes int64 // below the server
	files     int64 // in the state directory
	disk      int64 // KiB that these take
}

func (l level) String() string {
	return fmt.Sprintf("%d KiB resident, %d descriptors, %d threads, %d processes, %d files of %d KiB", l.rss, l.fds, l.threads, l.processes, l.files, l.disk)
}

// rested waits until all jobs are cleared away and what served the clients has
// gone too, and returns what is left. The lowest of some looks counts: what is
// released a moment later is no leak.
func (s *testServer) rested(t *testing.T) level {
	t.Helper()
	s.Close()
	for deadline := time.Now().Add(60 * time.Second); ; {
		l, err := s.List(context.Background(), "", 200)
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Jobs) == 0 && len(s.jobDirs()) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("left over: %v in the list, %v on the disk", l.Jobs, s.jobDirs())
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	s.Close()
	low := s.level(t)
	for range 20 {
		<-time.After(100 * time.Millisecond)
		l := s.level(t)
		low = level{
			rss: min(low.rss, l.rss), fds: min(low.fds, l.fds), threads: min(low.threads, l.threads),
			processes: min(low.processes, l.processes), files: min(low.files, l.files), disk: min(low.disk, l.disk),
		}
	}
	return low
}

func (s *testServer) level(t *testing.T) level {
	t.Helper()
	pid := s.cmd.Process.Pid
	l := level{
		rss:       int64(rss(t, pid) * 1e6 / 1024),
		fds:       entries(t, fmt.Sprintf("/proc/%d/fd", pid)),
		threads:   entries(t, fmt.Sprintf("/proc/%d/task", pid)),
		processes: int64(len(proctree.Descendants(nil, pid))),
	}
	err := filepath.WalkDir(s.state, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		l.files++
		l.disk += st.Sys().(*syscall.Stat_t).Blocks / 2
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // went meanwhile
		t.Fatal(err)
	}
	return l
}

func entries(t *testing.T, dir string) int64 {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(names))
}
