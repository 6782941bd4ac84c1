package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"shellctl/pkg/control"
	"shellctl/pkg/job"
)

// link is the runner's side of the connection to whichever server lives.
type link struct {
	growth chan struct{}      // capacity 1: the size changed since it was last sent
	starts chan control.Start // capacity 1: the next job
	done   chan struct{}      // closed when the link ends
	wg     sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	conn     *control.Conn // nil: no server
	lost     chan struct{} // closed when conn is replaced or gone
	listener *control.Listener
	job      *runningJob // nil: none yet
	size     int64
	ended    *job.Exit     // of the job, once known
	recorded chan struct{} // closed when a server has recorded the end of the job
}

// newLink begins to serve the server that started this runner.
func newLink(conn *control.Conn) *link {
	l := &link{
		growth: make(chan struct{}, 1), starts: make(chan control.Start, 1), done: make(chan struct{}),
		recorded: make(chan struct{}),
	}
	l.attach(conn)
	l.wg.Go(l.tellGrowth)
	return l
}

// awaitStart waits for the next job; false means that there will be none.
func (l *link) awaitStart() (control.Start, bool) {
	l.mu.Lock()
	lost := l.lost
	l.mu.Unlock()
	select {
	case s := <-l.starts:
		return s, true
	case <-lost:
		return control.Start{}, false
	}
}

// take makes a job the one that servers are told of, and begins to listen for
// later servers.
func (l *link) take(j *runningJob) error {
	l.mu.Lock()
	l.job, l.size, l.ended, l.recorded = j, 0, nil, make(chan struct{})
	l.mu.Unlock()
	listener, err := control.Listen(j.start.Control, j.start.ServerLock)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.listener = listener
	l.mu.Unlock()
	l.wg.Go(func() { l.accept(listener) })
	return nil
}

func (l *link) accept(listener *control.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // closed: the job is over
		}
		l.attach(conn)
	}
}

// attach makes conn the connection and tells the server what it has missed.
func (l *link) attach(conn *control.Conn) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		_ = conn.Close() // too late
		return
	}
	if l.conn != nil {
		_ = l.conn.Close() // replaced: its server is gone or about to be
		close(l.lost)
	}
	l.conn, l.lost = conn, make(chan struct{})
	lost := l.lost
	hello := control.Message{Kind: control.KindHello, Version: control.Version, Size: l.size}
	if l.job != nil {
		hello.Job = l.job.start.ID
		hello.Running, hello.Drain = l.job.progress()
	}
	ended := l.ended
	l.mu.Unlock()
	err := conn.Send(hello)
	if err == nil && ended != nil {
		err = conn.Send(control.Message{Kind: control.KindExited, Job: hello.Job, Exit: ended})
	}
	if err != nil {
		l.detach(conn, lost)
		return
	}
	l.wg.Go(func() {
		l.receive(conn)
		l.detach(conn, lost)
	})
}

// detach forgets a connection that ended.
func (l *link) detach(conn *control.Conn, lost chan struct{}) {
	_ = conn.Close() // ended already
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == conn {
		l.conn = nil
		close(lost)
	}
}

// receive carries out what a server asks for until its connection ends.
func (l *link) receive(conn *control.Conn) {
	for {
		m, err := conn.Receive()
		if err != nil {
			return
		}
		if m.Kind == control.KindStart && m.Start != nil {
			select {
			case l.starts <- *m.Start:
			default: // not asked for: nothing is idle here
			}
			continue
		}
		l.mu.Lock()
		j, recorded := l.job, l.recorded
		l.mu.Unlock()
		if j == nil || m.Job != j.start.ID {
			continue // of a job that is over
		}
		switch m.Kind {
		case control.KindInput:
			j.typeText(m, l.send)
		case control.KindTerminate:
			go j.terminate(m.Limit) // the job ends only after it
		case control.KindResize:
			j.resize(m.Terminal)
		case control.KindRecorded:
			closeOnce(recorded)
		}
	}
}

// closeOnce closes a channel that only this goroutine closes.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// send sends to the current server, if there is one.
func (l *link) send(m control.Message) {
	l.mu.Lock()
	conn := l.conn
	if l.job != nil {
		m.Job = l.job.start.ID
	}
	l.mu.Unlock()
	if conn != nil {
		_ = conn.Send(m) // receive sees the end of the connection
	}
}

// grew notes the new size of the output and has it told. It does not block.
func (l *link) grew(size int64) {
	l.mu.Lock()
	changed := size != l.size
	l.size = size
	l.mu.Unlock()
	if changed {
		select {
		case l.growth <- struct{}{}:
		default:
		}
	}
}

// growthGap is the shortest time between two messages about growth.
const growthGap = time.Millisecond

// tellGrowth sends the size when it changed: the first time at once, then not
// more often than a server could make use of.
func (l *link) tellGrowth() {
	gap := time.NewTimer(0)
	defer gap.Stop()
	for {
		select {
		case <-l.growth:
		case <-l.done:
			return
		}
		l.mu.Lock()
		size := l.size
		l.mu.Unlock()
		l.send(control.Message{Kind: control.KindSize, Size: size})
		gap.Reset(growthGap)
		select {
		case <-gap.C:
		case <-l.done:
			return
		}
	}
}

// report has the end recorded: by the server while it lives, else by the
// runner-exit applet. Then no later server is listened for.
func (l *link) report(exit job.Exit, start control.Start) error {
	l.mu.Lock()
	l.ended = &exit
	listener, recorded := l.listener, l.recorded
	l.listener = nil
	l.mu.Unlock()
	var err error
	if !l.tellServer(exit, recorded) {
		err = l.recordByHand(exit, start)
	}
	if listener != nil {
		err = errors.Join(err, listener.Close())
	}
	return err
}

// tellServer reports whether a server has recorded the end.
func (l *link) tellServer(exit job.Exit, recorded <-chan struct{}) bool {
	for {
		l.mu.Lock()
		conn, lost := l.conn, l.lost
		l.mu.Unlock()
		if conn == nil {
			return false
		}
		l.send(control.Message{Kind: control.KindExited, Exit: &exit}) // lost tells
		select {
		case <-recorded:
			return true
		case <-lost:
		}
	}
}

// close ends the link; the server has all it needs.
func (l *link) close() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	if l.conn != nil {
		_ = l.conn.Close() // receive sees it
	}
	l.mu.Unlock()
	close(l.done)
	l.wg.Wait()
}

// recordByHand starts runner-exit and waits for it.
func (l *link) recordByHand(exit job.Exit, start control.Start) error {
	l.mu.Lock()
	reaper := l.job.reaper
	l.mu.Unlock()
	code := "none"
	if exit.Code != nil {
		code = strconv.Itoa(*exit.Code)
	}
	argv := []string{
		"shellctl-runner-exit", "--state-dir", start.StateDir, "--job-id", string(start.ID),
		"--sqlite-busy-timeout-ms", strconv.FormatInt(start.BusyTimeout.Milliseconds(), 10),
		"--exit-code", code, "--ended-at", exit.EndedAt.UTC().Format(job.TimeFormat),
		"--status", string(exit.Status), "--reason", exit.Reason, "--message", exit.Message,
	}
	ended := make(chan unix.WaitStatus, 1)
	if _, err := reaper.StartSelf(argv, syscall.ProcAttr{}, func(st unix.WaitStatus) { ended <- st }); err != nil {
		return fmt.Errorf("record exit: %w", err)
	}
	if st := <-ended; st.ExitStatus() != 0 {
		return fmt.Errorf("record exit: runner-exit ended with %d", st.ExitStatus())
	}
	return nil
}

// writeExit leaves the end in the job's directory for a server that finds
// neither us nor a record. It is written by one call and decoded whole or not at
// all, so it needs no second name, whose going would break a copy of the home.
func writeExit(dir string, exit job.Exit) error {
	b, err := json.Marshal(exit)
	if err != nil {
		return fmt.Errorf("encode exit: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, job.ExitFile), b, 0o600); err != nil {
		return fmt.Errorf("write exit: %w", err)
	}
	return nil
}
