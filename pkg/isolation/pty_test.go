package isolation

import (
	"os"
	"strings"
	"testing"
)

const ownTerminal = `echo out > /dev/stdout; echo err > /dev/stderr; echo x | tee /dev/stderr > /dev/null
	echo tty > /dev/tty; stty raw -echo < /dev/tty && stty sane < /dev/tty && echo raw; tty`

func TestOwnTerminal(t *testing.T) {
	for _, uid := range []uint32{nobody, 0} {
		s := newSite(t, int(uid))
		got := shell(t, uid, s, defaults(t), true, ownTerminal)
		want := "out\nerr\nx\ntty\nraw\n/dev/pts/"
		if !strings.HasPrefix(got, want) {
			t.Errorf("uid %d: terminal = %q, want %q…", uid, got, want)
		}
	}
}

func TestPipes(t *testing.T) {
	s := newSite(t, nobody)
	got := shell(t, nobody, s, defaults(t), false,
		`cat /dev/stdin; echo out > /dev/stdout; echo err > /dev/stderr; echo x | tee /dev/stderr; ls /dev/fd > /dev/null && echo fd`)
	if want := "out\nerr\nx\nx\nfd"; got != want {
		t.Errorf("pipes = %q, want %q", got, want)
	}
}

// Another job's terminal: of the same user, and open.
func TestOtherTerminal(t *testing.T) {
	ptmx, tty, err := openTerminal()
	must(t, err)
	defer ptmx.Close()
	defer tty.Close()
	must(t, os.Chown(tty.Name(), nobody, nobody))
	try := `(: < ` + tty.Name() + `) 2>/dev/null && echo read; (: > ` + tty.Name() + `) 2>/dev/null && echo written; :`
	s := newSite(t, nobody)
	all := defaults(t)
	all.PTYs = PTYsAll
	for _, tt := range []struct {
		name string
		p    Policy
		want string
	}{{"off", Policy{}, "read\nwritten"}, {"all", all, "read\nwritten"}, {"own", defaults(t), ""}} {
		for _, pty := range []bool{false, true} {
			if got := shell(t, nobody, s, tt.p, pty, try); got != tt.want {
				t.Errorf("%s, pty %v: other terminal = %q, want %q", tt.name, pty, got, tt.want)
			}
		}
	}
}

// openpty works under all, and for root, who has a devpts to himself.
func TestOpenPTY(t *testing.T) {
	const script = `script -qec 'echo in; tty' /dev/null < /dev/null 2>&1`
	all := defaults(t)
	all.PTYs = PTYsAll
	for _, tt := range []struct {
		name string
		uid  uint32
		p    Policy
		ok   bool
	}{
		{"off", nobody, Policy{}, true},
		{"own", nobody, defaults(t), false},
		{"all", nobody, all, true},
		{"private", 0, defaults(t), true},
	} {
		s := newSite(t, int(tt.uid))
		for _, pty := range []bool{false, true} {
			got := shell(t, tt.uid, s, tt.p, pty, script)
			if ok := strings.Contains(got, "in\n/dev/pts/"); ok != tt.ok {
				t.Errorf("%s, pty %v: script said %q", tt.name, pty, got)
			}
		}
	}
}

// A private devpts shows no terminal but the job's, and nothing leaks out.
func TestPrivateMounts(t *testing.T) {
	before, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	s := newSite(t, 0)
	got := shell(t, 0, s, defaults(t), true, `echo $(ls /dev/pts) $(tty); ls /dev/shm; echo x > /dev/shm/isolation-private`)
	if want := "0 ptmx /dev/pts/0"; got != want {
		t.Errorf("private devpts = %q, want %q", got, want)
	}
	if exists("/dev/shm/isolation-private") {
		t.Error("shared memory of a job shows outside")
	}
	after, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	if string(before) != string(after) {
		t.Errorf("mounts changed:\n%s", after)
	}
}
