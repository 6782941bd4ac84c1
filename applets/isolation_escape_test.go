package applets_test

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"

	"shellctl/pkg/client"
)

const (
	eacces = "Permission denied"
	eperm  = "Operation not permitted"
	exdev  = "cross-device link"
	enosys = "Function not implemented"
)

// attempt is something a job tries. Isolation makes it fail with want in its
// output, and without isolation it succeeds, or the test would prove nothing.
// What is denied to every job of a plain user, isolation or not, is marked.
type attempt struct {
	name   string
	script string
	want   string
	always bool
}

// fileAttempts reach for files of somebody else.
func fileAttempts() []attempt {
	return []attempt{
		{name: "read another home", script: `cat $OTHER/secret`, want: eacces},
		{name: "list another home", script: `ls $OTHER`, want: eacces},
		{name: "create in another home", script: `touch $OTHER/new`, want: eacces},
		{name: "write in another home", script: `echo x >> $OTHER/secret`, want: eacces},
		{name: "mkdir in another home", script: `mkdir $OTHER/d`, want: eacces},
		{name: "symlink in another home", script: `ln -s x $OTHER/l`, want: eacces},
		{name: "fifo in another home", script: `mkfifo $OTHER/p`, want: eacces},
		{name: "run a program outside", script: `$OUT/program`, want: eacces},
		{name: "truncate outside", script: `try truncate $OUT/victim`, want: eacces},
		{name: "read through a symlink", script: `ln -sf $OTHER/secret sym; cat sym`, want: eacces},
		{name: "write through a symlink", script: `ln -sf $OUT/empty sym2; echo x > sym2`, want: eacces},
		{name: "read through dot-dot", script: `cat $HOME/sub/../../other/secret`, want: eacces},
		{name: "link a file in", script: `try link $OUT/victim $HOME/hard`, want: exdev},
		{name: "rename a file in", script: `try rename $OUT/empty $HOME/taken && mv $HOME/taken $OUT/empty`, want: eacces},
		{name: "rename a file out", script: `touch o && try rename o $OUT/dir/o`, want: eacces},
		{name: "read through own root", script: `cat /proc/self/root$OTHER/secret`, want: eacces},
		{name: "list the root", script: `ls /`, want: eacces},
		{name: "list /tmp", script: `ls /tmp`, want: eacces},
		{name: "list /dev", script: `ls /dev`, want: eacces},
		{name: "write /tmp", script: `f=/tmp/shellctl-test-$$; touch $f && rm $f`, want: eacces},
		{name: "read /var", script: `ls /var/log`, want: eacces},
		{name: "read /run", script: `ls /run`, want: eacces},
		{name: "read /sys", script: `ls /sys/kernel`, want: eacces},
	}
}

// stateAttempts reach for the record and the directories of jobs.
func stateAttempts() []attempt {
	return []attempt{
		{name: "read the database", script: `cat $STATE/shellctl.db`, want: eacces},
		{name: "write the database", script: `: >> $STATE/shellctl.db`, want: eacces},
		{name: "truncate the database log", script: `try truncate $STATE/made`, want: eacces},
		{name: "list the state", script: `ls $STATE/jobs`, want: eacces},
		{name: "read a script", script: `cat $JOB/script`, want: eacces},
		{name: "read an output", script: `cat $JOB/output.log`, want: eacces},
		{name: "write an output", script: `echo x >> $JOB/output.log`, want: eacces},
		{name: "forge an exit", script: `echo {} > $JOB/exit.json && rm $JOB/exit.json`, want: eacces},
		{name: "remove a job", script: `touch $JOB/z && rm $JOB/z`, want: eacces},
		{name: "change the own script", script: `: >> $0`, want: eacces},
		{name: "open the server's lock", script: `try open_file $STATE/server.lock O_RDWR`, want: eacces},
	}
}

// processAttempts reach for other processes.
func processAttempts() []attempt {
	list := []attempt{
		{name: "signal by pidfd", script: `try pidfd_signal $PID`, want: eperm},
		{name: "signal the server", script: `kill -0 $SERVER`, want: eperm},
		{name: "signal a runner", script: `kill -0 $RUNNER`, want: eperm},
		{name: "signal the own runner", script: `kill -0 $PPID`, want: eperm},
		{name: "signal another job", script: `kill -0 $PID`, want: eperm},
		{name: "signal another job's group", script: `kill -0 -$PID`, want: eperm},
		{name: "trace another job", script: `try ptrace_seize $PID`, want: eperm},
		{name: "read another job's memory", script: `try read_memory $PID`, want: eperm},
		{name: "open another job's memory", script: `try open_file /proc/$PID/mem O_RDWR`, want: eacces},
		{name: "take another job's descriptor", script: `try pidfd_getfd $PID`, want: eperm},
		{name: "read another job's environ", script: `cat /proc/$PID/environ`, want: eacces},
		{name: "enter another job's cwd", script: `ls /proc/$PID/cwd/`, want: eacces},
		{name: "enter another job's root", script: `ls /proc/$PID/root/`, want: eacces},
		{name: "open another job's terminal as a descriptor", script: `: > /proc/$PID/fd/1`, want: eacces},
	}
	for _, p := range []string{"SERVER", "RUNNER", "PPID"} {
		list = append(
			list,
			attempt{"environ of " + p, `cat /proc/$` + p + `/environ`, eacces, true},
			attempt{"maps of " + p, `cat /proc/$` + p + `/maps`, eacces, true},
			attempt{"memory file of " + p, `try open_file /proc/$` + p + `/mem O_RDONLY`, eacces, true},
			attempt{"memory of " + p, `try read_memory $` + p, eperm, true},
			attempt{"descriptors of " + p, `ls /proc/$` + p + `/fd`, eacces, true},
			attempt{"trace " + p, `try ptrace_seize $` + p, eperm, true},
			attempt{"take a descriptor of " + p, `try pidfd_getfd $` + p, eperm, true},
		)
	}
	return list
}

// kernelAttempts reach for the kernel and for other sockets.
func kernelAttempts() []attempt {
	list := []attempt{
		{name: "abstract socket", script: `try abstract $ABSTRACT`, want: eperm},
		{name: "abstract datagram", script: `try abstract_datagram $ABSTRACT.dgram`, want: eperm},
		{name: "user namespace", script: `try new_user`, want: eperm},
		{name: "user namespace by a tool", script: `unshare -U true`, want: eperm},
		{name: "user namespace by clone3", script: `try clone3_user`, want: enosys},
		{name: "io_uring", script: `try io_uring`, want: eperm},
		{name: "keyring", script: `try keyctl`, want: eperm},
		{name: "write an oom score", script: `echo 500 > /proc/self/oom_score_adj`, want: eacces},
		{name: "API without token", script: `try get $URL/v1/jobs/run`, want: "HTTP 401", always: true},
		{name: "API with a wrong token", script: `try get $URL/v1/jobs/run guess`, want: "HTTP 401", always: true},
		{name: "info without token", script: `try get $URL/v1/info`, want: "HTTP 40", always: true},
	}
	if runtime.GOARCH == "amd64" {
		list = append(list, attempt{name: "32-bit call", script: `$TOOLS/int80`, want: enosys})
	}
	return list
}

// terminalAttempts reach for the terminal of another job.
func terminalAttempts() []attempt {
	return []attempt{
		{name: "write another terminal", script: `echo forged > $TTY`, want: eacces},
		{name: "read another terminal", script: `try open_file $TTY O_RDONLY`, want: eacces},
		{name: "type into another terminal", script: `try open_file $TTY O_RDWR`, want: eacces},
		{name: "open a terminal", script: `try open_file /dev/ptmx O_RDWR`, want: eacces},
	}
}

func userAttempts() []attempt {
	list := append(fileAttempts(), stateAttempts()...)
	list = append(list, processAttempts()...)
	list = append(list, kernelAttempts()...)
	return append(list, terminalAttempts()...)
}

const isolationOff = "SHELLCTL_ENABLE_PATH_ISOLATION=false"

// TestEscapes makes all attempts in both modes as a plain user, and makes them
// without isolation too.
func TestEscapes(t *testing.T) {
	needRoot(t)
	needTools(t, "python3", "gcc")
	for _, mode := range []string{"stdio", "pty"} {
		t.Run(mode, func(t *testing.T) {
			s := newSite(t, plainUser)
			s.installInt80()
			s.wantDenied(userAttempts(), mode)
			s.wantUntouched()
			off := newSite(t, plainUser, isolationOff)
			off.installInt80()
			off.wantAllowed(userAttempts(), mode)
		})
	}
}

func (s *site) installInt80() {
	s.t.Helper()
	if runtime.GOARCH != "amd64" {
		return
	}
	b, err := os.ReadFile(compiled(s.t, "int80"))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.tools+"/int80", b, 0o755); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) wantDenied(list []attempt, mode string) {
	s.t.Helper()
	failed := s.try(list, mode)
	for _, a := range list {
		if out, denied := failed[a.name]; !denied || !strings.Contains(out, a.want) {
			s.t.Errorf("%s: denied %v, said %q, want %q", a.name, denied, out, a.want)
		}
	}
}

func (s *site) wantAllowed(list []attempt, mode string) {
	s.t.Helper()
	failed := s.try(list, mode)
	for _, a := range list {
		if out, denied := failed[a.name]; denied != a.always {
			s.t.Errorf("without isolation, %s: denied %v, said %q, want denied %v", a.name, denied, out, a.always)
		}
	}
}

// wantUntouched looks at what the attempts were after.
func (s *site) wantUntouched() {
	s.t.Helper()
	for name, want := range map[string]string{"other/secret": "neighbour's secret", "out/victim": "text", "out/empty": ""} {
		if b, err := os.ReadFile(s.path(name)); err != nil || string(b) != want {
			s.t.Errorf("%s = %q (%v), want %q", name, b, err, want)
		}
	}
	ctx := context.Background()
	if v, err := s.Status(ctx, s.id); err != nil || v.Status != "running" {
		s.t.Errorf("the neighbour is %+v (%v)", v, err)
	}
	if _, err := s.Input(ctx, s.id, "still here\n", client.WaitRequest{Timeout: 10, IdleFlush: 0.001}); err != nil {
		s.t.Fatal(err)
	}
	if out := s.until(s.id, "got <still here>").Output; strings.Contains(out, "forged") || strings.Contains(out, "got <>") {
		s.t.Errorf("somebody got at the neighbour's terminal: %q", out)
	}
}
