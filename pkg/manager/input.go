package manager

import (
	"context"
	"time"

	"shellctl/pkg/control"
	"shellctl/pkg/job"
	"shellctl/pkg/joblog"
	"shellctl/pkg/store"
)

// Input types text into the terminal of a job and then waits as [Manager.Wait]
// does. Nothing is sent if anything about the call is wrong.
func (m *Manager) Input(ctx context.Context, id job.ID, text string, w WaitOptions) (Result, error) {
	begin := time.Now()
	j, err := m.withTerminal(ctx, id, "stdio jobs do not support input")
	if err != nil {
		return Result{}, err
	}
	f, err := m.awaitOutput(ctx, j)
	if err != nil {
		return Result{}, err
	}
	if f == nil {
		return m.noOutput(j, w)
	}
	wt := waiter{job: j, file: f, opt: w}
	if err = wt.check(j.state()); err == nil {
		err = j.send(ctx, text, w.Timeout)
	}
	if err != nil {
		return m.result(id, nil, joblog.Window{}, f, err)
	}
	wt.begin = time.Now()
	wt.opt.Timeout = max(0, w.Timeout-time.Since(begin))
	window, exit, err := wt.wait(ctx, m.closing)
	return m.result(id, exit, window, f, err)
}

// withTerminal finds a running job that has a terminal; refusal is what to say of
// one that has none.
func (m *Manager) withTerminal(ctx context.Context, id job.ID, refusal string) (*liveJob, error) {
	j, _, err := m.lookup(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case j == nil || j.state().exit != nil:
		return nil, notRunning(id)
	case j.row.Mode == job.ModeStdio:
		return nil, job.Errorf(job.CodeInputUnsupported, "%s", refusal)
	}
	return j, nil
}

func notRunning(id job.ID) error {
	return job.Errorf(job.CodeJobNotRunning, "Job %s is already terminal", id)
}

// send has the runner type text and returns once the terminal has taken it.
func (j *liveJob) send(ctx context.Context, text string, limit time.Duration) error {
	answer := make(chan control.Message, 1)
	j.mu.Lock()
	if j.exit != nil {
		j.mu.Unlock()
		return notRunning(j.row.ID)
	}
	j.nextID++
	id := j.nextID
	j.inputs[id] = answer
	j.mu.Unlock()
	defer func() {
		j.mu.Lock()
		delete(j.inputs, id)
		j.mu.Unlock()
	}()
	j.tell(control.Message{Kind: control.KindInput, ID: id, Data: []byte(text), Limit: limit})
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return notRunning(j.row.ID)
		case m.Error == job.CodeInputBlocked:
			return job.Errorf(m.Error, "%s: %d of %d bytes went in", m.Text, m.Written, len(text))
		case m.Error != "":
			return job.Errorf(m.Error, "%s", m.Text)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answer hands an outcome to the call that waits for it, if it still does.
func (j *liveJob) answer(m control.Message) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c := j.inputs[m.ID]; c != nil {
		c <- m // has room: an id is answered once
		delete(j.inputs, m.ID)
	}
}

// Resize changes the size of a job's terminal.
func (m *Manager) Resize(ctx context.Context, id job.ID, t job.Terminal) (View, error) {
	j, err := m.withTerminal(ctx, id, "stdio jobs have no terminal")
	if err != nil {
		return View{}, err
	}
	j.tell(control.Message{Kind: control.KindResize, Terminal: t})
	return m.view(j, store.Row{}), nil
}
