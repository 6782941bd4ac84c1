package api

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"shellctl/pkg/config"
	"shellctl/pkg/job"
	"shellctl/pkg/snapshot"
)

// snapshots saves and restores the home directory of the server.
type snapshots struct {
	cfg      config.Snapshot
	stateDir string
	log      *slog.Logger
	gate     sync.Mutex // held by the one operation that runs
}

// Snapshot adds the routes that save and restore the home directory, but for
// the state directory. Call it before the first request.
func (a *API) Snapshot(cfg config.Snapshot, stateDir string) {
	newSnapshots(cfg, stateDir, a.log).addTo(a)
}

// Settle waits for a save or restore to clear away what it has half done, at
// most for a time. No other begins after it. Call it once, when the connections
// are closed.
func (a *API) Settle(atMost time.Duration) {
	if a.snapshots == nil {
		return
	}
	over := make(chan struct{})
	go func() {
		a.snapshots.gate.Lock() // for good
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(atMost):
	}
}

func newSnapshots(cfg config.Snapshot, stateDir string, log *slog.Logger) *snapshots {
	if cfg.Timeout == 0 {
		cfg.Timeout = config.DefaultSnapshotTimeout
	}
	return &snapshots{cfg: cfg, stateDir: stateDir, log: log}
}

func (s *snapshots) addTo(a *API) {
	a.snapshots = s
	a.handle("POST /v1/snapshot/save", a.authorized(s.save))
	a.handle("POST /v1/snapshot/restore", a.authorized(s.restore))
}

// enter passes the gate or refuses. Nobody queues: the client's own deadline
// would run meanwhile.
func (s *snapshots) enter() error {
	if !s.gate.TryLock() {
		return job.Errorf(job.CodeSnapshotBusy, "another snapshot operation is in progress")
	}
	return nil
}

// homeDir is asked for at each request: HOME may appear after the server.
func homeDir() (string, error) {
	home := os.Getenv("HOME")
	if home == "" {
		return "", job.Errorf(job.CodeHomeUnavailable, "HOME is not set")
	}
	abs, err := filepath.Abs(home)
	if err != nil {
		return "", job.Errorf(job.CodeHomeUnavailable, "find home: %v", err)
	}
	return abs, nil
}

type restoreBody struct {
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes_written"`
}

func (s *snapshots) restore(w http.ResponseWriter, r *http.Request) error {
	rc := http.NewResponseController(w)
	stats, err := s.extract(rc, r)
	if err != nil {
		// What the client still sends is read before it gets the answer. One that
		// stalls must not put the answer off.
		_ = rc.SetReadDeadline(time.Now().Add(drainTime))
		return err
	}
	write(w, http.StatusOK, restoreBody{stats.Entries, stats.BytesWritten})
	return nil
}

// drainTime is how long a refused archive may go on arriving.
const drainTime = 500 * time.Millisecond

// extract is restore up to the answer, which needs no gate.
func (s *snapshots) extract(rc *http.ResponseController, r *http.Request) (snapshot.RestoreStats, error) {
	if err := s.enter(); err != nil {
		return snapshot.RestoreStats{}, err
	}
	defer s.gate.Unlock()
	op := s.begin(r.Context(), rc.SetReadDeadline)
	defer op.end()
	home, err := homeDir()
	if err == nil {
		err = checkSpace(home, r.ContentLength)
	}
	if err != nil {
		return snapshot.RestoreStats{}, err
	}
	return snapshot.Restore(op.ctx, op.reader(r.Body), home, snapshot.RestoreOptions{
		StateDir: s.stateDir, MaxBytes: s.cfg.MaxBytes, MaxEntries: s.cfg.MaxEntries,
	})
}

// checkSpace refuses an archive that is larger than what is free, before half
// of it is written. It says nothing of one without a length, or where the file
// system does not tell.
func checkSpace(home string, size int64) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(home, &fs); err != nil || fs.Blocks == 0 {
		return nil
	}
	if free := fs.Bavail * uint64(fs.Bsize); size > 0 && uint64(size) > free {
		return job.Errorf(job.CodeRestoreFailed, "restore home: the archive has %d bytes, %d are free", size, free)
	}
	return nil
}
