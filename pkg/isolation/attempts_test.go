package isolation

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// attempt is something a job tries. Below the ABI in from it comes out as
// before, from then on as after; with isolation off it always succeeds.
type attempt struct {
	name          string
	try           func(site) error
	from          int
	before, after error
}

func attempts() []attempt {
	denied := func(name string, try func(site) error) attempt {
		return attempt{name, try, 1, nil, unix.EACCES}
	}
	allowed := func(name string, try func(site) error) attempt {
		return attempt{name, try, 1, nil, nil}
	}
	return []attempt{
		denied("read another home", reads("other/secret")),
		denied("list another home", lists("other")),
		denied("write another home", opens("other/secret", os.O_WRONLY)),
		denied("create in another home", opens("other/new", os.O_WRONLY|os.O_CREATE)),
		denied("mkdir in another home", func(s site) error { return os.Mkdir(s.Root+"/other/d", 0o755) }),
		denied("unlink in another home", func(s site) error { return os.Remove(s.Root + "/other/victim") }),
		denied("symlink in another home", func(s site) error { return os.Symlink("x", s.Root+"/other/l") }),
		denied("mkfifo in another home", func(s site) error { return unix.Mkfifo(s.Root+"/other/p", 0o600) }),
		denied("bind socket in another home", func(s site) error { return listens(s.Root + "/other/s") }),
		denied("execute in another home", func(s site) error { return exec.Command(s.Root + "/other/program").Run() }),
		denied("read through a symlink", func(s site) error {
			must2(os.Symlink(s.Other, s.Home+"/link"))
			return reads("home/link/secret")(s)
		}),
		denied("read the database", reads("state/shellctl.db")),
		denied("write the database", opens("state/shellctl.db", os.O_WRONLY)),
		denied("read the own log", reads("state/jobs/1/out.log")),
		denied("write the own script", opens("state/jobs/1/script", os.O_WRONLY)),
		denied("list the state", lists("state/jobs")),
		denied("list the root", func(site) error { return lists("")(site{Root: "/"}) }),
		denied("list /tmp", func(site) error { return lists("")(site{Root: "/tmp"}) }),
		denied("list /dev", func(site) error { return lists("")(site{Root: "/dev"}) }),
		denied("list /dev/shm", func(site) error { return lists("")(site{Root: "/dev/shm"}) }),
		denied("open /dev/ptmx", func(site) error { _, _, err := openTerminal(); return err }),
		{"truncate in another home", func(s site) error { return os.Truncate(s.Other+"/secret", 0) }, abiTruncate, nil, unix.EACCES},
		{"signal a process outside", func(s site) error { return unix.Kill(s.Outside, 0) }, abiScopes, nil, unix.EPERM},
		{"connect to an abstract socket", func(s site) error { return dials(s.Abstract) }, abiScopes, nil, unix.EPERM},
		{"connect to a socket file", func(s site) error { return dials(s.Socket) }, abiPathSockets, nil, unix.EACCES},
		denied("read environ outside", func(s site) error { return procFile(s, "environ") }),
		denied("read memory map outside", func(s site) error { return procFile(s, "maps") }),
		denied("follow root outside", func(s site) error { return procFile(s, "root/etc/passwd") }),
		{"trace a process outside", func(s site) error { return traces(s.Outside) }, 1, nil, unix.EPERM},

		{"rename between directories", func(s site) error {
			must2(os.WriteFile(s.Home+"/r", nil, 0o600))
			return os.Rename(s.Home+"/r", s.Ws+"/r")
		}, abiRefer, unix.EXDEV, nil},
		{"link between directories", func(s site) error {
			must2(os.WriteFile(s.Home+"/h", nil, 0o600))
			return os.Link(s.Home+"/h", s.Ws+"/h")
		}, abiRefer, unix.EXDEV, nil},
		allowed("write HOME", opens("home/new", os.O_WRONLY|os.O_CREATE)),
		allowed("write cwd", opens("ws/new", os.O_WRONLY|os.O_CREATE)),
		allowed("truncate in HOME", func(s site) error { return os.Truncate(s.Home+"/file", 1) }),
		allowed("mkfifo in HOME", func(s site) error { return unix.Mkfifo(s.Home+"/p", 0o600) }),
		allowed("bind socket in HOME", func(s site) error { return listens(s.Home + "/s") }),
		allowed("read the script", reads("state/jobs/1/script")),
		allowed("execute the script", func(s site) error { return exec.Command(s.Script).Run() }),
		allowed("read /etc/passwd", func(site) error { return reads("passwd")(site{Root: "/etc"}) }),
		allowed("read /proc", func(site) error { return reads("self/status")(site{Root: "/proc"}) }),
		allowed("stat in another home", func(s site) error { _, err := os.Stat(s.Other + "/secret"); return err }),
		allowed("devices", usesDevices),
		allowed("share memory", sharesMemory),
		allowed("read cgroups", func(site) error { return lists("fs/cgroup")(site{Root: "/sys"}) }),
		allowed("read cpus", func(site) error { return reads("online")(site{Root: "/sys/devices/system/cpu"}) }),
	}
}

func reads(path string) func(site) error { return opens(path, os.O_RDONLY) }

func opens(path string, flag int) func(site) error {
	return func(s site) error {
		f, err := os.OpenFile(filepath.Join(s.Root, path), flag, 0o600)
		if err == nil {
			f.Close()
		}
		return err
	}
}

func lists(path string) func(site) error {
	return func(s site) error { _, err := os.ReadDir(filepath.Join(s.Root, path)); return err }
}

func listens(path string) error {
	l, err := net.Listen("unix", path)
	if err == nil {
		l.Close()
	}
	return err
}

func dials(path string) error {
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
	}
	return err
}

func procFile(s site, name string) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/%s", s.Outside, name))
	if err == nil {
		f.Close()
	}
	return err
}

func traces(pid int) error {
	if err := unix.PtraceSeize(pid); err != nil {
		return err
	}
	// Seized and not stopped: the trace ends with this process.
	return nil
}

func usesDevices(site) error {
	for _, path := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/random"} {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}

// sharesMemory is sem_open(3): make under a temporary name, link, unlink.
func sharesMemory(site) error {
	tmp := fmt.Sprintf("/dev/shm/isolation-%d", os.Getpid())
	if err := os.WriteFile(tmp, []byte("x"), 0o600); err != nil {
		return err
	}
	return errors.Join(os.Link(tmp, tmp+".sem"), os.Truncate(tmp, 4096), os.Remove(tmp+".sem"), os.Remove(tmp))
}

func must2(err error) {
	if err != nil {
		panic(err)
	}
}

func attemptSet(name string) []attempt {
	switch name {
	case "files":
		return attempts()
	case "root":
		return rootAttempts()
	case "calls":
		return callAttempts()
	case "tcp":
		return tcpAttempts()
	}
	return nil
}

// playJob tries everything and prints the errno of each attempt.
func playJob() int {
	var s site
	if err := json.Unmarshal([]byte(os.Getenv("SITE")), &s); err != nil {
		return 1
	}
	got := map[string]syscall.Errno{}
	for _, a := range attemptSet(os.Getenv("SET")) {
		got[a.name] = errnoOf(a.try(s))
	}
	return boolToCode(json.NewEncoder(os.Stdout).Encode(got) == nil)
}

func boolToCode(ok bool) int {
	if ok {
		return 0
	}
	return 1
}

func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &errno):
		return errno
	}
	return ^syscall.Errno(0)
}

// trySet has a job with the policy make all attempts of a set.
func trySet(t *testing.T, set string, uid uint32, p Policy) map[string]syscall.Errno {
	t.Helper()
	s := newSite(t, int(uid))
	outside(t, uid, &s)
	return trySite(t, set, uid, p, s)
}

func trySite(t *testing.T, set string, uid uint32, p Policy, s site) map[string]syscall.Errno {
	t.Helper()
	b, err := json.Marshal(s)
	must(t, err)
	env := append(jobEnv(s), roleVar+"=job", "SITE="+string(b), "SET="+set)
	r := play(t, uid, plan{Policy: p, Job: s.job(), Argv: []string{s.Self}, Env: env})
	if r.Refused != "" || r.Status.ExitStatus() != 0 {
		t.Fatalf("job: %s %v %s", r.Refused, r.Status, r.Out)
	}
	got := map[string]syscall.Errno{}
	if err := json.Unmarshal([]byte(r.Out), &got); err != nil {
		t.Fatalf("job said %q: %v", r.Out, err)
	}
	return got
}

// outside starts what a job must not reach: a process of its user, and sockets.
func outside(t *testing.T, uid uint32, s *site) {
	t.Helper()
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	stdin, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { stdin.Close(); cmd.Wait() })
	s.Outside = cmd.Process.Pid
	s.Abstract = "@" + strings.ReplaceAll(s.Root, "/", ".")
	s.Socket = filepath.Join(s.Root, "sock")
	for _, path := range []string{s.Abstract, s.Socket} {
		l, err := net.Listen("unix", path)
		must(t, err)
		t.Cleanup(func() { l.Close() })
	}
	must(t, os.Chmod(s.Socket, 0o777))
}

// TestAttempts covers every right, on this kernel and as on older ones, and
// with isolation off, where all must succeed for the rest to mean anything.
func TestAttempts(t *testing.T) {
	kernel, why := kernelABI()
	if kernel < abiScopes {
		t.Fatalf("Landlock ABI %d %s: this test needs %d", kernel, why, abiScopes)
	}
	t.Run("off", func(t *testing.T) {
		checkOff(t, attempts(), trySet(t, "files", nobody, Policy{}))
	})
	for abi := 1; abi <= kernel; abi++ {
		t.Run(fmt.Sprintf("ABI %d", abi), func(t *testing.T) {
			p := defaults(t)
			p.MaxABI = abi
			check(t, attempts(), trySet(t, "files", nobody, p), abi)
		})
	}
}

func checkOff(t *testing.T, list []attempt, got map[string]syscall.Errno) {
	t.Helper()
	for _, a := range list {
		if got[a.name] != 0 {
			t.Errorf("%s = %v, want success", a.name, got[a.name])
		}
	}
}

func check(t *testing.T, list []attempt, got map[string]syscall.Errno, abi int) {
	t.Helper()
	for _, a := range list {
		want := a.after
		if abi < a.from {
			want = a.before
		}
		if got[a.name] != errnoOf(want) {
			t.Errorf("%s = %v, want %v", a.name, got[a.name], errnoOf(want))
		}
	}
}
