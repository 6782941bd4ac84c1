package proctree

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// envChild tells a test that it runs in a process of its own.
const envChild = "PROCTREE_TEST_CHILD"

// inChild runs the test in a process of its own, in which it returns true: being
// a subreaper and reaping everything concern a whole process.
func inChild(t *testing.T) bool {
	t.Helper()
	if os.Getenv(envChild) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.timeout=50s")
	cmd.Env = append(os.Environ(), envChild+"=1", "GORACE=atexit_sleep_ms=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// tree is this process as the root of a tree.
type tree struct {
	*Reaper
	t     *testing.T
	lines *bufio.Scanner // what the processes print
	out   *os.File
}

func newTree(t *testing.T) *tree {
	t.Helper()
	if err := SetSubreaper(); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	tr := &tree{Reaper: NewReaper(), t: t, lines: bufio.NewScanner(r), out: w}
	t.Cleanup(func() {
		tr.killAll()
		tr.Close()
	})
	return tr
}

// start runs a script. Its end goes to the channel.
func (tr *tree) start(script string, args ...string) (int, <-chan unix.WaitStatus) {
	tr.t.Helper()
	pid := 0
	ended := make(chan unix.WaitStatus, 2) // one more than can come, to find it
	err := tr.Start(func() (int, error) {
		var err error
		pid, err = syscall.ForkExec("/bin/sh", append([]string{"sh", "-c", script}, args...), &syscall.ProcAttr{
			Env: os.Environ(), Files: []uintptr{0, tr.out.Fd(), 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
		})
		return pid, err
	}, func(st unix.WaitStatus) { ended <- st })
	if err != nil {
		tr.t.Fatal(err)
	}
	return pid, ended
}

// pids reads n pids that processes print.
func (tr *tree) pids(n int) []int {
	tr.t.Helper()
	var out []int
	for range n {
		if !tr.lines.Scan() {
			tr.t.Fatalf("the output ended: %v", tr.lines.Err())
		}
		pid, err := strconv.Atoi(tr.lines.Text())
		if err != nil {
			tr.t.Fatal(err)
		}
		out = append(out, pid)
	}
	return out
}

func (tr *tree) killAll() {
	tr.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := tr.KillAll(ctx); err != nil {
		tr.t.Errorf("KillAll: %v; still there: %v", err, Descendants(nil, os.Getpid()))
	}
	if left := Descendants(nil, os.Getpid()); len(left) > 0 {
		tr.t.Errorf("after KillAll there is %v", left)
	}
}

func within(t *testing.T, c <-chan unix.WaitStatus) unix.WaitStatus {
	t.Helper()
	select {
	case st := <-c:
		return st
	case <-time.After(20 * time.Second):
		t.Fatal("no end was told")
	}
	return 0
}

// A tree with children, a session of its own, and one that forked twice.
const family = `
	sh -c 'echo $$; exec sleep 1000' &
	setsid sh -c 'echo $$; exec sleep 1000' &
	(setsid sh -c 'sh -c "echo \$\$; exec sleep 1000" & echo $$; wait' &)
	echo $$
	wait`

func TestDescendants(t *testing.T) {
	if !inChild(t) {
		return
	}
	tr := newTree(t)
	pid, ended := tr.start(family)
	want := tr.pids(5)
	got := Descendants(nil, os.Getpid())
	for _, p := range want {
		if !slices.Contains(got, p) {
			t.Errorf("%d is not among %v", p, got)
		}
		if st, err := ReadStat(p); err != nil || !Alive(p, st.Start) || Alive(p, st.Start+1) {
			t.Errorf("process %d: %+v, %v", p, st, err)
		}
	}
	if i := slices.Index(got, pid); i < 0 {
		t.Errorf("%d is not among %v", pid, got)
	}
	for i, p := range got {
		if st, err := ReadStat(p); err == nil && slices.Index(got, st.Parent) > i {
			t.Errorf("%d comes before its parent %d in %v", p, st.Parent, got)
		}
	}
	for _, p := range append(want, os.Getpid()) { // as on a kernel without lists of children
		a, b := children(p), childrenByScan(p)
		slices.Sort(a)
		slices.Sort(b)
		if !slices.Equal(a, b) {
			t.Errorf("children of %d: %v, by scan %v", p, a, b)
		}
	}
	tr.killAll()
	for _, p := range want {
		if _, err := ReadStat(p); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%d is still there: %v", p, err)
		}
	}
	if st := within(t, ended); st.Signal() != unix.SIGKILL {
		t.Errorf("the script ended with %v", st)
	}
	if got := Descendants(nil, 1<<22); got != nil {
		t.Errorf("descendants of nobody: %v", got)
	}
}

func TestKillAll(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	flee := filepath.Join(dir, "flee")
	if err := os.WriteFile(flee, []byte("#!/bin/sh\n\"$0\" &\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"ignores signals": `trap '' INT TERM HUP; (trap '' INT TERM HUP; sleep 1000) & echo $$; while :; do sleep 1000; done`,
		"is stopped":      `sleep 1000 & kill -STOP $!; echo $$; kill -STOP $$`,
		"forks":           `echo $$; while :; do sleep 1000 & done`,
		"forks twice":     `echo $$; while :; do (setsid sleep 1000 &); done`,
		"forks and ends":  flee + ` & echo $$`, // each generation makes the next and exits
		"is a storm":      `storm() { while :; do sh -c 'sleep 0.01 & :' & done; }; storm & storm & echo $$; storm`,
		"is gone":         `echo $$`,
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t)
			pid, ended := tr.start(script)
			if got := tr.pids(1)[0]; got != pid {
				t.Fatalf("the script says %d, want %d", got, pid)
			}
			tr.killAll()
			within(t, ended)
			if len(ended) > 0 {
				t.Error("an end was told twice")
			}
		})
	}
}

func TestKillAllEndsWithContext(t *testing.T) {
	if !inChild(t) {
		return
	}
	tr := newTree(t)
	tr.start(`echo $$; exec sleep 1000`)
	tr.pids(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tr.WaitNone(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitNone = %v", err)
	}
}

func TestSignalGroupAndAll(t *testing.T) {
	if !inChild(t) {
		return
	}
	tr := newTree(t)
	one, endOfOne := tr.start(`sh -c 'echo $$; exec sleep 1000' & echo $$; wait`)
	tr.pids(2)
	_, endOfTwo := tr.start(`echo $$; kill -STOP $$; :`)
	two := tr.pids(1)[0]
	SignalGroup(one, unix.SIGTERM)
	if st := within(t, endOfOne); st.Signal() != unix.SIGTERM {
		t.Errorf("the group ended with %v", st)
	}
	if st, err := ReadStat(two); err != nil || !Alive(two, st.Start) {
		t.Errorf("another group was hit: %v", err)
	}
	SignalAll(unix.SIGTERM, unix.SIGCONT)
	if st := within(t, endOfTwo); st.Signal() != unix.SIGTERM {
		t.Errorf("a stopped process ended with %v", st)
	}
}

// Each end is told to the one who started it, once, also when many come at once.
func TestReaperTellsTheRightOne(t *testing.T) {
	if !inChild(t) {
		return
	}
	tr := newTree(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	const n = 200
	var mu sync.Mutex
	got := map[int][]unix.WaitStatus{}
	all := make(chan struct{})
	for i := range n {
		err := tr.Start(func() (int, error) {
			return syscall.ForkExec("/bin/sh", []string{"sh", "-c", `read x; exit ` + strconv.Itoa(i)}, &syscall.ProcAttr{Files: []uintptr{r.Fd(), 1, 2}})
		}, func(st unix.WaitStatus) {
			mu.Lock()
			defer mu.Unlock()
			got[i] = append(got[i], st)
			if len(got) == n {
				close(all)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	r.Close()
	w.Close() // now all end
	select {
	case <-all:
	case <-time.After(20 * time.Second):
		t.Fatal("not all ends were told")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := tr.WaitNone(ctx); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for i, st := range got {
		if len(st) != 1 || st[0].ExitStatus() != i {
			t.Errorf("child %d was told to have ended with %v", i, st)
		}
	}
}

func TestReaperOnChildrenThatEndAtOnce(t *testing.T) {
	if !inChild(t) {
		return
	}
	tr := newTree(t)
	for range 100 {
		_, ended := tr.start(`exit 7`)
		if st := within(t, ended); st.ExitStatus() != 7 {
			t.Fatalf("ended with %v", st)
		}
	}
	never := func(unix.WaitStatus) { t.Error("an end was told of a process that never was") }
	for range 20 {
		err := tr.Start(func() (int, error) { return syscall.ForkExec("/nonexistent", []string{"x"}, &syscall.ProcAttr{}) }, never)
		if !errors.Is(err, unix.ENOENT) {
			t.Errorf("Start = %v", err)
		}
	}
	tr.Look()
	if _, none := tr.Changed(); !none {
		t.Error("a child is left")
	}
}

// Orphans come to the subreaper and do not stay as zombies.
func TestReaperReapsOrphans(t *testing.T) {
	if !inChild(t) {
		return
	}
	tr := newTree(t)
	_, ended := tr.start(`for i in 1 2 3 4 5 6 7 8 9 10; do (setsid sh -c 'exit 3' &); done; exit 5`)
	if st := within(t, ended); st.ExitStatus() != 5 {
		t.Errorf("the script ended with %v", st)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := tr.WaitNone(ctx); err != nil {
		t.Error(err)
	}
	if left := Descendants(nil, os.Getpid()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// sleeper is a process of this test.
func sleeper(t *testing.T, name string) (int, uint64, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(name, "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	st, err := ReadStat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, st.Start, cmd
}

func TestWrongStartTimeIsAnotherProcess(t *testing.T) {
	pid, start, _ := sleeper(t, "sleep")
	for _, wrong := range []uint64{0, start - 1, start + 1, 1<<64 - 1} {
		Kill(pid, wrong)
		if p, err := Watch(pid, wrong); p != nil || err != nil {
			t.Errorf("Watch = %v, %v", p, err)
		}
	}
	if !Alive(pid, start) {
		t.Error("a process with another start time was killed")
	}
	for _, gone := range []int{0, -1, 1 << 22} {
		if p, err := Watch(gone, start); p != nil || err != nil {
			t.Errorf("Watch(%d) = %v, %v", gone, p, err)
		}
		Kill(gone, start)
	}
}

func TestWatch(t *testing.T) {
	pid, start, cmd := sleeper(t, "sleep")
	p, err := Watch(pid, start)
	if err != nil || p == nil {
		t.Fatalf("Watch = %v, %v", p, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Wait(ctx) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || !Alive(pid, start) {
		t.Errorf("Wait = %v", err)
	}

	if p, err = Watch(pid, start); err != nil || p == nil {
		t.Fatalf("Watch = %v, %v", p, err)
	}
	go func() { ended <- p.Wait(t.Context()) }()
	if err := p.Signal(unix.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Wait = %v", err)
	}
	if Alive(pid, start) {
		t.Error("it is alive") // a zombie counts as ended
	}
	if p, err := Watch(pid, start); p != nil || err != nil {
		t.Errorf("Watch of a zombie = %v, %v", p, err)
	}
	_ = cmd.Wait() // by the signal
	if p, err := Watch(pid, start); p != nil || err != nil {
		t.Errorf("Watch of nobody = %v, %v", p, err)
	}
}

func TestKillWithRightStartTime(t *testing.T) {
	pid, start, cmd := sleeper(t, "sleep")
	Kill(pid, start)
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", err)
	}
}

// The name of a process may look like the rest of the line.
func TestReadStatWithOddNames(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	if sleep, err = filepath.EvalSymlinks(sleep); err != nil {
		t.Fatal(err)
	}
	self, err := ReadStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a) R (b", ") Z 1 1 1", "(((", ")))", "a\nb) 1", " ", "\xff) X"} {
		link := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(sleep, link); err != nil {
			t.Fatal(err)
		}
		pid, start, cmd := sleeper(t, link)
		st, err := ReadStat(pid)
		if err != nil || st.Parent != os.Getpid() || st.Group != pid || st.Session != pid || st.Start != start || start < self.Start || !strings.ContainsRune("RSD", rune(st.State)) {
			t.Errorf("%q: %+v, %v", name, st, err)
		}
		if !Alive(pid, start) {
			t.Errorf("%q is not alive", name)
		}
		if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err != nil || strings.TrimSuffix(string(comm), "\n") != name {
			t.Errorf("the name is %q, %v, want %q", comm, err, name)
		}
		_ = cmd.Process.Kill() // as in sleeper
	}
	if _, err := ReadStat(1 << 22); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("ReadStat of nobody = %v", err)
	}
}

func TestBootID(t *testing.T) {
	if id := BootID(); len(id) != 36 || id != BootID() {
		t.Errorf("%q", id)
	}
}

// TestSweepCgroups: what a process that is gone has left is swept, what a living
// one has made stays.
func TestSweepCgroups(t *testing.T) {
	base, err := CgroupBase()
	if err != nil {
		t.Logf("no control groups here: %v", err) // as for a plain user: nothing is made, nothing to sweep
		return
	}
	mine, err := NewCgroup(base, "test")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.SplitN(filepath.Base(mine.Path), "-", 4) // shellctl-NAMESPACE-PID-NAME
	other := func(pid int) string {
		path := filepath.Join(base, fmt.Sprintf("%s-%s-%d-test", parts[0], parts[1], pid))
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	living, gone := other(os.Getppid()), other(1<<22)
	SweepCgroups(base)
	if _, err := os.Stat(living); err != nil {
		t.Error("the group of a living process was swept")
	}
	for _, path := range []string{gone, mine.Path} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s was not swept", path)
		}
	}
	if err := os.Remove(living); err != nil {
		t.Error(err)
	}
}
