// Package manager holds the jobs of a server: it starts them, follows their
// runners, lets clients wait, feeds, stops and deletes them, finds them again
// after a restart and clears away what is old.
package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"shellctl/pkg/config"
	"shellctl/pkg/control"
	"shellctl/pkg/isolation"
	"shellctl/pkg/job"
	"shellctl/pkg/proctree"
	"shellctl/pkg/store"
)

// Manager owns the live jobs of one state directory. Its methods may be called
// from any goroutine; those for clients wait until Open has finished recovery.
type Manager struct {
	cfg     config.Server
	policy  isolation.Policy // of every job
	log     *slog.Logger
	home    string   // HOME of the server
	env     []string // of the server, without what no job gets
	boot    string   // id of the running boot
	cgroups string   // directory for the control groups of jobs; empty: they have none
	lock    *control.Lock
	reaper  *proctree.Reaper

	ready chan struct{} // closed when store is usable and recovery done, or fail set
	store *store.Store
	fail  error // why Open failed; set before ready is closed

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	closing chan struct{} // closed when waits are to be answered at once
	gc      collector
	once    onceGate
	pool    pool
	running slots

	mu   sync.Mutex
	live map[job.ID]*liveJob
}

const (
	dirMode    = 0o700
	lockFile   = "server.lock"
	jobsDir    = "jobs"
	busyRunner = store.DefaultBusyTimeout
)

// New takes hold of the state directory. If another server has it, the error is
// a *[control.HeldError]. Nothing else is done before Open.
func New(cfg config.Server, policy isolation.Policy, log *slog.Logger) (*Manager, error) {
	if err := os.MkdirAll(filepath.Join(cfg.StateDir, jobsDir), dirMode); err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	if cfg.RuntimeDir != "" {
		if err := os.MkdirAll(cfg.RuntimeDir, dirMode); err != nil {
			return nil, fmt.Errorf("make runtime directory: %w", err)
		}
	}
	lock, err := control.AcquireLock(filepath.Join(cfg.StateDir, lockFile))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &Manager{
		cfg: cfg, policy: policy, log: log, lock: lock,
		home: os.Getenv("HOME"), env: serverEnv(os.Environ()), boot: proctree.BootID(),
		reaper: proctree.NewReaper(),
		ready:  make(chan struct{}), closing: make(chan struct{}),
		ctx: ctx, cancel: cancel,
		gc:   collector{wake: make(chan struct{}, 1)},
		live: make(map[job.ID]*liveJob),
	}
	if cfg.Limits.MaxLogBytes > 0 {
		m.gc.size = m.outputBytes
	}
	return m, nil
}

// Open opens the record and finds the jobs of an earlier server again. Calls of
// clients wait for it; it is meant to run beside a listener that answers already.
func (m *Manager) Open() error {
	defer close(m.ready)
	m.useCgroups()
	s, err := store.Open(m.ctx, m.cfg.StateDir, m.log)
	if err == nil {
		m.store = s
		err = m.recover()
	}
	if err != nil {
		m.fail = fmt.Errorf("open the record in %s%s: %w", m.cfg.StateDir, fullDisk(m.cfg.StateDir), err)
		return m.fail
	}
	m.wg.Go(m.collect)
	return nil
}

// useCgroups gives each job a control group of its own where the server may make
// one; elsewhere the walk over the process tree does the same work.
func (m *Manager) useCgroups() {
	base, err := proctree.CgroupBase()
	if err != nil {
		m.log.Debug("jobs have no control groups", "reason", err)
		return
	}
	proctree.SweepCgroups(base)
	m.cgroups = base
}

// Closing makes all waits answer at once, so that a server can finish its answers.
func (m *Manager) Closing() {
	select {
	case <-m.closing:
	default:
		close(m.closing)
	}
}

// Close lets go of the state directory. Running jobs go on under their runners.
func (m *Manager) Close() error {
	m.Closing()
	m.cancel()
	m.closePool()
	m.mu.Lock()
	for _, j := range m.live {
		if j.runner != nil {
			_ = j.runner.conn.Close() // it goes on; attend sees it
		}
	}
	m.mu.Unlock()
	<-m.ready
	m.wg.Wait()
	m.reaper.Close()
	var err error
	if m.store != nil {
		err = m.store.Close()
	}
	return errors.Join(err, m.lock.Release())
}

// Abandon gives up a Manager that will not be opened.
func (m *Manager) Abandon() error {
	m.fail = errors.New("not opened")
	close(m.ready)
	return m.Close()
}

// opened waits until recovery is done.
func (m *Manager) opened(ctx context.Context) error {
	select {
	case <-m.ready:
		return m.fail
	case <-ctx.Done():
		return ctx.Err()
	}
}

// find returns a live job, or nil.
func (m *Manager) find(id job.ID) *liveJob {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.live[id]
}

func (m *Manager) add(j *liveJob) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live[j.row.ID] = j
}

func (m *Manager) remove(j *liveJob) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.live, j.row.ID)
}

// dir is the directory of a job.
func (m *Manager) dir(id job.ID) string { return filepath.Join(m.cfg.StateDir, jobsDir, string(id)) }

// OutputPath is where the output of a job lies.
func (m *Manager) OutputPath(id job.ID) string { return filepath.Join(m.dir(id), job.OutputFile) }
