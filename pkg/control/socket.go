package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// BirthFD is the descriptor on which a runner finds its first connection.
const BirthFD = 3

// Pair returns the server's end of a new connection and the file to give to a
// runner as BirthFD. The caller closes both.
func Pair() (*Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make control connection: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "control")
	ours := os.NewFile(uintptr(fds[0]), "control")
	defer ours.Close() // FileConn duplicates it
	c, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make control connection: %w", err), theirs.Close())
	}
	return NewConn(c), theirs, nil
}

// Inherited returns the connection that this runner was born with.
func Inherited() (*Conn, error) {
	f := os.NewFile(BirthFD, "control")
	if f == nil {
		return nil, errors.New("take control connection: no descriptor")
	}
	defer f.Close() // FileConn duplicates it, with close-on-exec
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("take control connection: %w", err)
	}
	return NewConn(c), nil
}

// short returns a path of the same socket that fits into a socket address (108
// bytes), whatever the depth of the state directory, and what keeps it valid.
func short(path string) (string, func(), error) {
	if len(path) < 100 {
		return path, func() {}, nil
	}
	fd, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, &os.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	// A descriptor opened with O_PATH has nothing to flush.
	return "/proc/self/fd/" + strconv.Itoa(fd) + "/" + filepath.Base(path), func() { _ = unix.Close(fd) }, nil
}

// Listener is a runner's socket for later servers.
type Listener struct {
	l    *net.UnixListener
	lock string // file that the server keeps locked
}

// Listen makes the socket at path, with mode 0600. Only the process that holds
// the lock on serverLock is let in.
func Listen(path, serverLock string) (*Listener, error) {
	p, done, err := short(path)
	if err != nil {
		return nil, fmt.Errorf("listen on control socket: %w", err)
	}
	defer done()
	old := unix.Umask(0o177)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: p, Net: "unix"})
	unix.Umask(old)
	if err != nil {
		return nil, fmt.Errorf("listen on control socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	return &Listener{l: l, lock: serverLock}, nil
}

// Accept returns the next connection of the server. Others are turned away.
func (l *Listener) Accept() (*Conn, error) {
	for {
		c, err := l.l.AcceptUnix()
		if err != nil {
			return nil, fmt.Errorf("accept control connection: %w", err)
		}
		if err := l.admit(c); err != nil {
			_ = c.Close() // nothing was written to it
			continue
		}
		return NewConn(c), nil
	}
}

// admit checks that the peer is the server of this state directory. A job runs
// as the same user and may reach the socket, so neither the user nor a file
// mode tells them apart; the lock does: the kernel names its one holder, and
// the job can not take it from the server.
func (l *Listener) admit(c *net.UnixConn) error {
	cred, err := peer(c)
	if err != nil {
		return err
	}
	if int(cred.Uid) != os.Geteuid() && cred.Uid != 0 {
		return fmt.Errorf("admit control connection: user %d", cred.Uid)
	}
	holder, err := LockHolder(l.lock)
	if err != nil {
		return err
	}
	if holder == 0 || holder != int(cred.Pid) {
		return fmt.Errorf("admit control connection: process %d is not the server", cred.Pid)
	}
	return nil
}

// Close stops listening. The name stays, for the owner of its directory to
// remove: its going at any moment would break a copy of the home.
func (l *Listener) Close() error { return l.l.Close() }

// Dial connects to the runner that listens at path, if it is the process pid.
func Dial(ctx context.Context, path string, pid int) (*Conn, error) {
	p, done, err := short(path)
	if err != nil {
		return nil, fmt.Errorf("dial runner: %w", err)
	}
	defer done()
	d := net.Dialer{Timeout: 5 * time.Second}
	c, err := d.DialContext(ctx, "unix", p)
	if err != nil {
		return nil, fmt.Errorf("dial runner: %w", err)
	}
	cred, err := peer(c.(*net.UnixConn))
	if err == nil && int(cred.Pid) != pid {
		err = fmt.Errorf("process %d answers, not %d", cred.Pid, pid)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dial runner: %w", err), c.Close())
	}
	return NewConn(c), nil
}

// peer returns who is at the other end.
func peer(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("read peer credentials: %w", err)
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, fmt.Errorf("read peer credentials: %w", err)
	}
	if cerr != nil {
		return nil, fmt.Errorf("read peer credentials: %w", cerr)
	}
	return cred, nil
}
