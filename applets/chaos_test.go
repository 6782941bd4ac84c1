package applets_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shellctl/pkg/client"
)

var chaosRounds = flag.Int("chaos", 100, "rounds of TestChaos")

// chaosJob is a job of a round of chaos: what it was and what must come of it.
type chaosJob struct {
	id    string // empty: the answer of run was lost with the server
	lines int
	code  int
	side  string // what the script wrote itself, beside its output
	runID string // in its name, to find a job whose id is not known
}

// TestChaos kills the server or a runner at random moments while jobs start, run
// and end, starts the server again and compares what each script wrote to a file
// of its own with its log, and its end with the record: no byte lost, no end wrong
// or invented, nothing left over.
func TestChaos(t *testing.T) {
	s := startServer(t, serverOptions{uid: plainUser, env: []string{"GORACE=atexit_sleep_ms=0"}})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for round := range *chaosRounds {
		chaosRound(t, s, rnd, round)
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	if dirs := s.jobDirs(); len(dirs) > 0 {
		t.Errorf("job directories are left: %v", dirs)
	}
}

func chaosRound(t *testing.T, s *testServer, rnd *rand.Rand, round int) {
	jobs := make([]*chaosJob, 2+rnd.IntN(3))
	var starts sync.WaitGroup
	for i := range jobs {
		j := &chaosJob{lines: rnd.IntN(400), code: rnd.IntN(120), runID: fmt.Sprintf("%d-%d", round, i)}
		j.side = filepath.Join(s.home, "side-"+j.runID)
		jobs[i] = j
		mode, pause := bothModes[rnd.IntN(2)], time.Duration(rnd.IntN(3000))*time.Microsecond
		starts.Go(func() {
			<-time.After(pause)
			res, err := s.Run(context.Background(), client.RunRequest{Script: j.script(), Mode: mode, WaitRequest: client.WaitRequest{Timeout: 0.001}})
			if err == nil {
				j.id = res.JobID
			}
		})
	}
	<-time.After(time.Duration(rnd.IntN(60_000)) * time.Microsecond)
	killedRunner := false
	switch what := rnd.IntN(4); {
	case what < 2:
		s.stop(syscall.SIGKILL)
		starts.Wait()
		s.start()
	case what == 2:
		if r := s.allRunners(); len(r) > 0 {
			killedRunner = true
			_ = syscall.Kill(r[rnd.IntN(len(r))], syscall.SIGKILL) // it may have ended
		}
	}
	starts.Wait()
	lost := 0
	for _, j := range jobs {
		lost += j.check(t, s)
	}
	if lost > 0 && !killedRunner || lost > 1 {
		t.Errorf("%d jobs are lost, a runner was killed: %v", lost, killedRunner)
	}
	sweepRound(t, s)
}

// script writes numbered lines to its output and to its side file, and its exit
// code last.
func (j *chaosJob) script() string {
	return fmt.Sprintf(`: > %[1]s
i=0
while [ $i -lt %[2]d ]; do i=$((i+1)); echo "line $i of a job that is being tormented"; echo $i >> %[1]s; done
echo done >> %[1]s
exit %[3]d`, j.side, j.lines, j.code)
}

// check follows a job to its end and reports 1 if it is lost.
func (j *chaosJob) check(t *testing.T, s *testServer) int {
	t.Helper()
	if j.id == "" {
		return 0 // the server was killed before it answered; sweepRound finds what ran
	}
	res := s.finish(client.Result{JobID: j.id})
	side, err := os.ReadFile(j.side)
	if res.Status == "lost" {
		if res.ExitCode != nil {
			t.Errorf("a lost job has exit code %d", *res.ExitCode)
		}
		return 1
	}
	wantExit(t, res, "exited", j.code)
	var want strings.Builder
	for i := range j.lines {
		fmt.Fprintf(&want, "line %d of a job that is being tormented\n", i+1)
	}
	if res.Output != want.String() {
		t.Errorf("job %s: %d bytes of output, want %d; the end %q", j.id, len(res.Output), want.Len(), tail([]byte(res.Output)))
	}
	if err != nil || !strings.HasSuffix(string(side), "done\n") {
		t.Errorf("job %s is exited, its script is not: %v", j.id, err)
	}
	return 0
}

// sweepRound lets every job end, also those of which no client knows, and
// removes them all.
func sweepRound(t *testing.T, s *testServer) {
	t.Helper()
	l, err := s.List(context.Background(), "", 200)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range l.Jobs {
		s.finish(client.Result{JobID: j.JobID})
		if _, err := s.Delete(context.Background(), j.JobID, false, nil); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
}
