package isolation

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// shell runs a shell script as a job and returns what it printed.
func shell(t testing.TB, uid uint32, s site, p Policy, pty bool, script string) string {
	t.Helper()
	r := play(t, uid, plan{
		Policy: p, Job: s.job(), Argv: []string{"/bin/sh", "-c", script}, Env: jobEnv(s), PTY: pty,
	})
	if r.Refused != "" {
		t.Fatalf("refused: %s", r.Refused)
	}
	return strings.TrimSpace(strings.ReplaceAll(r.Out, "\r", ""))
}

func capsOfJob(t *testing.T, p Policy, s site) uint64 {
	t.Helper()
	out := shell(t, 0, s, p, false, "exec sh -c 'grep CapEff /proc/self/status'")
	caps, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(out, "CapEff:")), 16, 64)
	must(t, err)
	return caps
}

// callAttempts make every denied call with arguments that no kernel accepts. So
// they fail either way, but not with the filter's errno unless it is there.
func callAttempts() []attempt {
	bogus := ^uintptr(0)
	var list []attempt
	call := func(name string, nr, a0, a1 uintptr, want error) {
		list = append(list, attempt{name, func(site) error {
			_, _, errno := unix.RawSyscall6(nr, a0, a1, bogus, bogus, bogus, bogus)
			if errno == want {
				return want
			}
			return nil
		}, 0, nil, want})
	}
	for _, nr := range deniedCalls() {
		call(fmt.Sprintf("call %d", nr), uintptr(nr), bogus, bogus, unix.EPERM)
	}
	call("clone3", unix.SYS_CLONE3, bogus, 0, unix.ENOSYS)
	call("clone a user namespace", unix.SYS_CLONE, bogus, bogus, unix.EPERM)
	call("unshare a user namespace", unix.SYS_UNSHARE, bogus, bogus, unix.EPERM)
	call("TIOCSTI", unix.SYS_IOCTL, bogus, 0x5412, unix.EPERM)
	call("TIOCSTI with high bits", unix.SYS_IOCTL, bogus, 0xdead<<32|0x5412, unix.EPERM)
	call("TIOCLINUX", unix.SYS_IOCTL, bogus, 0x541C, unix.EPERM)
	return append(list,
		attempt{"other ioctl", func(site) error { return notErrno(unix.EPERM, unix.SYS_IOCTL, bogus, 0x5413) }, 0, nil, nil},
		attempt{"unshare files", func(site) error { return unix.Unshare(unix.CLONE_FILES) }, 0, nil, nil},
	)
}

func notErrno(not unix.Errno, nr, a0, a1 uintptr) error {
	if _, _, errno := unix.RawSyscall(nr, a0, a1, 0); errno == not {
		return errno
	}
	return nil
}

// As root, who would be let through by every check but the filter.
func TestSeccomp(t *testing.T) {
	checkOff(t, callAttempts(), trySet(t, "calls", 0, Policy{}))
	check(t, callAttempts(), trySet(t, "calls", 0, Policy{Seccomp: true}), 0)
	check(t, callAttempts(), trySet(t, "calls", nobody, defaults(t)), 0)
}

func tcpAttempts() []attempt {
	connect := func(port int) error { return tcp(port, 0, unix.Connect) }
	bind := func(port int) error { return tcp(port, 0, unix.Bind) }
	return []attempt{
		{"connect to an allowed port", func(s site) error { return connect(s.Open) }, abiTCP, nil, nil},
		{"connect to another port", func(s site) error { return connect(s.Shut) }, abiTCP, nil, unix.EACCES},
		{"bind any port", func(site) error { return bind(0) }, abiTCP, nil, unix.EACCES},
		{"connect by TCP Fast Open", func(s site) error { return fastOpen(s.Shut) }, 0, nil, unix.EOPNOTSUPP},
		{"make an MPTCP socket", func(site) error { return socket(unix.AF_INET, protoMPTCP) }, 0, nil, unix.EPROTONOSUPPORT},
		{"make a UDP socket", func(site) error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
			return errors.Join(err, unix.Close(fd))
		}, 0, nil, nil},
	}
}

func tcp(port, proto int, do func(int, unix.Sockaddr) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, proto)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
}

func socket(family, proto int) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM, proto)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func fastOpen(port int) error {
	return tcp(port, 0, func(fd int, addr unix.Sockaddr) error {
		return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, addr)
	})
}

func TestTCP(t *testing.T) {
	s := newSite(t, nobody)
	s.Outside = os.Getpid()
	for _, port := range []*int{&s.Open, &s.Shut} {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		must(t, err)
		t.Cleanup(func() { l.Close() })
		*port = l.Addr().(*net.TCPAddr).Port
	}
	p := defaults(t)
	checkOff(t, tcpAttempts(), trySite(t, "tcp", nobody, p, s)) // no limit is the default
	p.ConnectPorts, p.BindPorts = []uint16{uint16(s.Open)}, []uint16{}
	abi, _ := kernelABI()
	check(t, tcpAttempts(), trySite(t, "tcp", nobody, p, s), abi)
	p.MaxABI = abiTCP - 1
	check(t, tcpAttempts(), trySite(t, "tcp", nobody, p, s), p.MaxABI)
}

func TestLimits(t *testing.T) {
	const script = `ulimit -c; ulimit -Hc; ulimit -n; ulimit -Hn; ulimit -f; ulimit -v; ulimit -t; ulimit -Ht
		grep -o 'Max processes *[0-9]*' /proc/self/limits | grep -o '[0-9]*$'`
	s := newSite(t, nobody)
	p := defaults(t)
	p.Limits = Limits{NoFile: 77, NProc: 333, FSize: 1 << 20, AS: 1 << 30, CPU: 9}
	for _, pty := range []bool{false, true} {
		got := strings.Fields(shell(t, nobody, s, p, pty, script))
		want := strings.Fields("0 0 77 77 2048 1048576 9 10 333")
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("pty %v: limits = %v, want %v", pty, got, want)
		}
	}
	// They bind from the first instruction on, and everything below.
	out := shell(t, nobody, s, p, false, `head -c 2000000 /dev/zero > big; echo $?; ls -l big | cut -d' ' -f5`)
	if want := "153\n1048576"; !strings.HasSuffix(out, want) {
		t.Errorf("write past the limit: %q, want %q", out, want)
	}
	if out := shell(t, nobody, s, p, false, `ulimit -n 78 2>&1 || echo refused`); !strings.Contains(out, "refused") {
		t.Errorf("raise a limit: %q", out)
	}
}

// A limit above the hard one of the server can not be had, and is no error.
func TestLimitAboveHard(t *testing.T) {
	s := newSite(t, nobody)
	var hard unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &hard))
	p := Policy{Limits: Limits{NoFile: hard.Max + 1}}
	if out := shell(t, nobody, s, p, false, "ulimit -n"); out != fmt.Sprint(hard.Max) {
		t.Errorf("limit = %s, want %d", out, hard.Max)
	}
}

// ForkExec passes the errno of a missing program on, with limits as without.
func TestForkExecErrors(t *testing.T) {
	s := newSite(t, nobody)
	for _, l := range []Limits{{}, {NoFile: 50}} {
		p := defaults(t)
		p.Limits = l
		r := play(t, nobody, plan{Policy: p, Job: s.job(), Argv: []string{s.Home + "/none"}})
		if r.Refused != unix.ENOENT.Error() {
			t.Errorf("%+v: start of a missing program = %q", l, r.Refused)
		}
	}
}
