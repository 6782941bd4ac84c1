package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"shellctl/pkg/job"
	"shellctl/pkg/joblog"
	"shellctl/pkg/store"
)

// WaitOptions say what a wait is for. All are checked and bounded by the caller.
type WaitOptions struct {
	Offset    int64         // bytes of the output that the client has seen
	Timeout   time.Duration // answer at the latest then; 0: at once
	Limit     int64         // bytes of output in the answer
	IdleFlush time.Duration // answer when there is output and it has not grown for so long
}

// Result is a job with a window of its output, which is not in memory: it is read
// from the file when it is written on.
type Result struct {
	ID         job.ID
	Status     job.Status
	ExitCode   *int
	OutputPath string
	Window     joblog.Window
	File       *os.File // nil: the window is empty
}

// WriteText writes the text of the window.
func (r Result) WriteText(to io.Writer) error {
	if r.File == nil {
		return nil
	}
	return r.Window.WriteText(r.File, to)
}

// Close lets go of the output. It must be called.
func (r Result) Close() {
	if r.File != nil {
		_ = r.File.Close() // only read from
	}
}

// Wait answers at the first of: the job has ended; more output than the window
// holds; output, and it has not grown for the idle time; the timeout. A wait that
// ends never changes the job.
func (m *Manager) Wait(ctx context.Context, id job.ID, w WaitOptions) (Result, error) {
	j, row, err := m.lookup(ctx, id)
	if err != nil {
		return Result{}, err
	}
	if j != nil {
		return m.waitLive(ctx, j, w)
	}
	return m.endedResult(row, w)
}

// Tail answers at once with the last bytes of the output.
func (m *Manager) Tail(ctx context.Context, id job.ID, limit int64) (Result, error) {
	j, row, err := m.lookup(ctx, id)
	if err != nil {
		return Result{}, err
	}
	f, err := m.openOutput(id)
	if err != nil {
		return Result{}, err
	}
	var exit *job.Exit
	if j != nil {
		exit = j.state().exit
	} else {
		exit = rowExit(row)
	}
	w, err := joblog.Tail(f, limit, exit != nil)
	w.More = false
	return m.result(id, exit, w, f, err)
}

// waitLive waits on a job of this server.
func (m *Manager) waitLive(ctx context.Context, j *liveJob, w WaitOptions) (Result, error) {
	f, err := m.awaitOutput(ctx, j)
	if err != nil {
		return Result{}, err
	}
	if f == nil { // the client left or the server ends before the runner made the file
		return m.noOutput(j, w)
	}
	wt := waiter{job: j, file: f, opt: w, begin: time.Now()}
	window, exit, err := wt.wait(ctx, m.closing)
	return m.result(j.row.ID, exit, window, f, err)
}

// awaitOutput opens the output, which is there once the script runs or the job has ended.
func (m *Manager) awaitOutput(ctx context.Context, j *liveJob) (*os.File, error) {
	for {
		s := j.state()
		if s.started || s.exit != nil {
			return m.openOutput(j.row.ID)
		}
		select {
		case <-s.changed:
		case <-m.closing:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// waiter is one wait under way.
type waiter struct {
	job   *liveJob
	file  *os.File
	opt   WaitOptions
	begin time.Time
}

func (w *waiter) wait(ctx context.Context, closing <-chan struct{}) (joblog.Window, *job.Exit, error) {
	timer := time.NewTimer(w.opt.Timeout)
	defer timer.Stop()
	deadline := w.begin.Add(w.opt.Timeout)
	for {
		s := w.job.state()
		now := time.Now()
		final := s.exit != nil || !now.Before(deadline) || closed(closing)
		due := w.due(s, now)
		if final || !due.IsZero() && !now.Before(due) {
			window, err := joblog.Page(w.file, w.opt.Offset, w.opt.Limit, s.exit != nil)
			// Half a character alone is no output: go on waiting for its rest.
			if err != nil || final || !window.Empty() || window.More {
				return window, s.exit, err
			}
			due = time.Time{}
		}
		if err := w.check(s); err != nil {
			return joblog.Window{}, nil, err
		}
		next := deadline
		if !due.IsZero() && due.Before(next) {
			next = due
		}
		timer.Reset(time.Until(next))
		select {
		case <-s.changed:
		case <-timer.C:
		case <-closing:
		case <-ctx.Done():
			return joblog.Window{}, nil, ctx.Err()
		}
	}
}

// due returns when the output seen so far is to be answered, zero if there is none.
func (w *waiter) due(s state, now time.Time) time.Time {
	seen := s.size - w.opt.Offset
	switch {
	case seen <= 0:
		return time.Time{}
	case seen > w.opt.Limit:
		return now
	case s.drain: // silence is how the end of a job sounds; it comes within config.MaxDrain
		return time.Time{}
	}
	quiet := w.begin // output from before this call counts as seen at its begin
	if s.grown.After(quiet) {
		quiet = s.grown
	}
	return quiet.Add(w.opt.IdleFlush)
}

// check refuses an offset behind the end of the file. The size that the runner
// told may be older than the file, so the file decides.
func (w *waiter) check(s state) error {
	if w.opt.Offset <= s.size {
		return nil
	}
	_, err := joblog.Page(w.file, w.opt.Offset, 0, false)
	return err
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// endedResult answers for a job that has ended.
func (m *Manager) endedResult(row store.Row, w WaitOptions) (Result, error) {
	f, err := m.openOutput(row.ID)
	if err != nil {
		return Result{}, err
	}
	window, err := joblog.Page(f, w.Offset, w.Limit, true)
	return m.result(row.ID, rowExit(row), window, f, err)
}

// noOutput is the result for a job that has no file yet.
func (m *Manager) noOutput(j *liveJob, w WaitOptions) (Result, error) {
	return m.result(j.row.ID, j.state().exit, joblog.Window{Begin: w.Offset, Offset: w.Offset}, nil, nil)
}

// result takes over the file of the window, and closes it if there was an error.
func (m *Manager) result(id job.ID, exit *job.Exit, w joblog.Window, f *os.File, err error) (Result, error) {
	r := Result{ID: id, Status: job.StatusRunning, OutputPath: m.OutputPath(id), Window: w, File: f}
	if err != nil {
		r.Close()
		return Result{}, err
	}
	if exit != nil {
		r.Status, r.ExitCode = exit.Status, exit.Code
	}
	return r, nil
}

// openOutput opens the output of a job for reading.
func (m *Manager) openOutput(id job.ID) (*os.File, error) {
	f, err := os.Open(m.OutputPath(id))
	if errors.Is(err, os.ErrNotExist) {
		if _, derr := os.Stat(m.dir(id)); derr != nil {
			return nil, job.Unknown() // deleted this moment
		}
		f, err = os.Open(os.DevNull) // never made: empty
	}
	if err != nil {
		return nil, fmt.Errorf("open output: %w", err)
	}
	return f, nil
}

// OpenStream opens the bytes of an output as the job wrote them. Only a job in
// stdio mode has an stderr of its own.
func (m *Manager) OpenStream(ctx context.Context, id job.ID, stderr bool) (*os.File, error) {
	j, row, err := m.lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	if j != nil {
		row = j.row
	}
	if !stderr {
		return m.openOutput(id)
	}
	if row.Mode != job.ModeStdio {
		return nil, job.Errorf(job.CodeValidation, "only a job in stdio mode has a stream stderr")
	}
	f, err := os.Open(filepath.Join(m.dir(id), job.StderrFile))
	if err != nil {
		return nil, fmt.Errorf("open output: %w", err)
	}
	return f, nil
}

// lookup finds a job: as live, or by its row.
func (m *Manager) lookup(ctx context.Context, id job.ID) (*liveJob, store.Row, error) {
	if !id.Valid() {
		return nil, store.Row{}, job.Unknown()
	}
	if err := m.opened(ctx); err != nil {
		return nil, store.Row{}, err
	}
	if j := m.find(id); j != nil {
		return j, store.Row{}, nil
	}
	row, err := m.store.Get(ctx, id)
	return nil, row, err
}

// rowExit is the end that a row tells of. A row that is not terminal though no
// live job stands for it is one whose end could not be recorded yet.
func rowExit(row store.Row) *job.Exit {
	return &job.Exit{Status: row.Status, Code: row.ExitCode, Reason: row.Reason, Message: row.Message, EndedAt: row.Ended}
}
