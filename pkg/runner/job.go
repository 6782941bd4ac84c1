package runner

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"shellctl/pkg/config"
	"shellctl/pkg/control"
	"shellctl/pkg/isolation"
	"shellctl/pkg/job"
	"shellctl/pkg/joblog"
	"shellctl/pkg/proctree"
)

// runningJob is the job of this runner from its start to its end.
type runningJob struct {
	start  control.Start
	reaper *proctree.Reaper
	out    *joblog.Writer
	errOut *joblog.Writer // stdio only, or nil
	master *os.File       // pty only, or nil
	slave  *os.File       // pty only; kept until the leader has exited, or nil
	stream []*stream
	input  *input          // pty only, or nil
	cell   *isolation.Cell // what the script is confined in; nil before its start

	leader chan unix.WaitStatus // receives once
	pid    int                  // of the leader, also its process group

	mu          sync.Mutex
	started     bool
	terminating bool // before the leader ended by itself
	leaderGone  bool
	ended       bool
	left        bool       // the control group, to kill it; it is not ours any more
	killing     int        // terminations under way
	killed      *sync.Cond // on mu; told when killing drops to 0
}

func newJob(start control.Start, reaper *proctree.Reaper) *runningJob {
	j := &runningJob{start: start, reaper: reaper, leader: make(chan unix.WaitStatus, 1)}
	j.killed = sync.NewCond(&j.mu)
	return j
}

// run takes the job from its start to its end.
//
// Order at the end, which nothing may change: the leader has exited, the last
// byte is read, the sanitizer is flushed, the log is written; then the caller
// records the exit and the server wakes its waiters. So whoever sees the end
// can read all of the output.
func (j *runningJob) run(l *link) job.Exit {
	if err := j.openLogs(); err != nil {
		return job.StartFailed(err)
	}
	if exit := j.launch(l); exit != nil {
		j.closeAll()
		return *exit
	}
	if j.input != nil {
		j.input.serve(l.send)
	}
	l.send(control.Message{Kind: control.KindStarted})
	rest := time.AfterFunc(restAfter, proctree.DropProgram)
	status := <-j.leader
	rest.Stop()
	l.send(control.Message{Kind: control.KindDraining})
	j.drain()
	terminated := j.finish()
	j.hangUp()
	return j.exit(status, terminated)
}

// restAfter is how long a job runs before its runner gives back the memory that
// starting it took. Most jobs are over by then.
const restAfter = time.Second

// openLogs makes the output files; they exist from before the script runs.
func (j *runningJob) openLogs() (err error) {
	if j.out, err = joblog.Create(j.start.Dir+"/"+job.OutputFile, j.start.Settings.MaxOutputBytes); err != nil {
		return err
	}
	if j.start.Mode == job.ModeStdio {
		j.errOut, err = joblog.Create(j.start.Dir+"/"+job.StderrFile, j.start.Settings.MaxOutputBytes)
	}
	return err
}

// leaderExited is told by the reaper.
func (j *runningJob) leaderExited(status unix.WaitStatus) {
	j.mu.Lock()
	j.leaderGone = true
	j.mu.Unlock()
	j.leader <- status
}

// drain reads what the job still has to say after its leader has exited: until
// every holder of the terminal or the pipes has closed them, or, as a child in
// the background may keep them for ever, until the drain grace is over.
func (j *runningJob) drain() {
	if j.slave != nil {
		_ = j.slave.Close() // ours only kept the terminal from ending; nothing was written to it
		j.slave = nil
	}
	for _, s := range j.stream {
		s.drain(j.start.Settings.DrainGrace, config.MaxDrain)
	}
	for _, s := range j.stream {
		<-s.done
	}
}

// finish closes the job to terminations, after those under way have killed
// everything, and reports whether one of them was the cause of the end.
func (j *runningJob) finish() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.killing > 0 {
		j.killed.Wait()
	}
	j.ended = true
	return j.terminating
}

// hangUp ends what is still attached to the job: in both modes a plain child in
// the background ends with its job, one that was told to ignore the hang-up or
// made its own session does not.
func (j *runningJob) hangUp() {
	if j.master != nil {
		j.input.close()
		_ = j.master.Close() // all of it was read, and nobody reads what was written
	}
	proctree.SignalGroup(j.pid, unix.SIGHUP, unix.SIGCONT)
}

// exit closes the logs and says how the job ended.
func (j *runningJob) exit(status unix.WaitStatus, terminated bool) job.Exit {
	e := job.Exit{Status: job.StatusExited, Reason: job.ReasonExited, EndedAt: job.Now()}
	code := status.ExitStatus()
	if status.Signaled() {
		code = 128 + int(status.Signal())
		e.Reason = job.ReasonSignal + unix.SignalName(status.Signal())
	}
	e.Code = &code
	if terminated {
		e.Status, e.Reason = job.StatusTerminated, job.ReasonTerminated
	}
	if err := j.closeLogs(); err != nil {
		e.Reason, e.Message = job.ReasonOutputWrite, err.Error()
	}
	return e
}

func (j *runningJob) closeLogs() error {
	err := j.out.Close()
	if j.errOut != nil {
		if e := j.errOut.Close(); err == nil {
			err = e
		}
	}
	return err
}

// closeAll undoes a start that failed.
func (j *runningJob) closeAll() {
	for _, f := range []*os.File{j.master, j.slave} {
		if f != nil {
			_ = f.Close() // never used
		}
	}
	_ = j.closeLogs() // an error of the disk is less than the one reported
}

// terminate ends the whole job: Ctrl-C at once, SIGTERM and SIGHUP to the whole
// tree at half the grace, SIGKILL to the whole tree at its end. It returns when
// nothing of the job is left.
func (j *runningJob) terminate(grace time.Duration) {
	j.mu.Lock()
	if j.ended || !j.started {
		j.mu.Unlock()
		return
	}
	if !j.leaderGone {
		j.terminating = true
	}
	j.killing++
	j.mu.Unlock()
	j.killTree(grace)
	j.mu.Lock()
	j.killing--
	j.killed.Broadcast()
	j.mu.Unlock()
}

// maxSoftKill is the latest time for SIGTERM, however long the grace.
const maxSoftKill = 2 * time.Second

func (j *runningJob) killTree(grace time.Duration) {
	begin := time.Now()
	if grace > 0 {
		j.interrupt()
		if j.goneBy(begin.Add(min(grace/2, maxSoftKill))) {
			return
		}
		// SIGCONT, or a stopped process would not act on the others.
		proctree.SignalAll(unix.SIGTERM, unix.SIGHUP, unix.SIGCONT)
		if j.goneBy(begin.Add(grace)) {
			return
		}
	}
	if j.start.Cgroup != "" {
		j.killCgroup() // the walk kills what this could not
	}
	// Without a bound: the server gives up on us before it would matter.
	_ = j.reaper.KillAll(context.Background())
}

// killCgroup kills everything in the control group that the runner and with it
// the script were born in, once the runner has left it.
func (j *runningJob) killCgroup() {
	j.mu.Lock()
	defer j.mu.Unlock()
	g := proctree.Cgroup{Path: j.start.Cgroup}
	if !j.left && g.Leave() != nil {
		return // not allowed any more
	}
	j.left = true
	_ = g.Kill() // as for Leave
}

func (j *runningJob) goneBy(t time.Time) bool {
	ctx, cancel := context.WithDeadline(context.Background(), t)
	defer cancel()
	return j.reaper.WaitNone(ctx) == nil
}

// interrupt is Ctrl-C: typed into the terminal, or SIGINT to the group.
func (j *runningJob) interrupt() {
	if j.input != nil && j.input.interrupt() {
		return
	}
	proctree.SignalGroup(j.pid, unix.SIGINT)
}

// progress tells whether the script was started, and whether it has exited.
func (j *runningJob) progress() (started, draining bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.started, j.leaderGone
}

// typeText queues an input; send is given the answer, now or later.
func (j *runningJob) typeText(m control.Message, send func(control.Message)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.input == nil:
		send(refused(m, job.CodeInputUnsupported, "stdio jobs do not support input"))
	case !j.started || j.ended:
		send(refused(m, job.CodeJobNotRunning, "the job has ended"))
	default:
		j.input.add(m)
	}
}

// resize changes the size of the terminal; the kernel tells the script.
func (j *runningJob) resize(t job.Terminal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.master != nil && j.started && !j.ended {
		_ = pty.Setsize(j.master, &pty.Winsize{Cols: t.Cols, Rows: t.Rows}) // fails on a closed terminal only
	}
}

// release lets go of what the job had to itself, once its end is told.
func (j *runningJob) release() {
	_ = unix.Chdir("/") // an idle runner must keep no directory busy
	if j.cell != nil {
		_ = j.cell.Close() // a namespace, nothing that is written
	}
}

// reusable reports whether this process is as it was before the job.
func (j *runningJob) reusable() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.left {
		return false
	}
	for _, s := range j.stream {
		if s.open {
			return false
		}
	}
	return true
}

// discard reads on for what outlived a stdio job, so that a write to the old
// pipes does not kill it by SIGPIPE, until the last of them has closed.
func (j *runningJob) discard() {
	for _, s := range j.stream {
		s.discard()
	}
}

// exited is the end of a job whose script could not be executed: the text went
// where the script's errors would have gone.
func exited(code int, format string, args ...any) *job.Exit {
	return &job.Exit{
		Status: job.StatusExited, Code: &code, Reason: job.ReasonStartFailed,
		Message: fmt.Sprintf(format, args...), EndedAt: job.Now(),
	}
}
