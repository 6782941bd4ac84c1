package isolation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// A trial is what a layer must do to a confined thread.
type trial struct {
	layer string
	try   func(grounds) error
	want  error // nil: the layer gives a right
}

// grounds are what trials play on: a HOME, and things outside of it.
type grounds struct{ dir, abstract string }

func (g grounds) in(name string) string { return filepath.Join(g.dir, name) }

func trials() []trial {
	return []trial{
		{"paths", func(g grounds) error { return opened(g.in("out/file")) }, unix.EACCES},
		{"refer", func(g grounds) error { return unix.Rename(g.in("home/a/file"), g.in("home/b/file")) }, nil},
		{"truncate", func(g grounds) error { return unix.Truncate(g.in("out/file"), 0) }, unix.EACCES},
		{"ioctl_dev", windowOfNull, unix.EACCES},
		{"signals", func(grounds) error { return unix.Kill(os.Getppid(), 0) }, unix.EPERM},
		{"abstract_sockets", func(g grounds) error { return connected("@" + g.abstract) }, unix.EPERM},
		{"path_sockets", func(g grounds) error { return connected(g.in("out/socket")) }, unix.EACCES},
		{"seccomp", func(grounds) error {
			_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
			return err
		}, unix.EPERM},
	}
}

// Try confines a thread that is thrown away by the policy and tries on it every
// layer that the report calls enforced. It returns what does not hold, by the
// name of the layer, and an error if the thread can not be confined at all. dir
// is an empty directory; the parent of this process is taken for a stranger.
func (p Policy) Try(r Report, dir string) (broken map[string]error, err error) {
	g := grounds{dir: dir, abstract: fmt.Sprintf("shellctl-trial-%d", os.Getpid())}
	done, err := g.prepare()
	defer done()
	if err != nil {
		return nil, err
	}
	OnThread(func() { broken, err = p.tryConfined(r, g) })
	return broken, err
}

func (p Policy) tryConfined(r Report, g grounds) (map[string]error, error) {
	cell, err := p.Enter()
	if err != nil {
		return nil, err
	}
	defer cell.Close()
	if err := cell.Restrict(Job{Home: g.in("home"), Cwd: g.in("home")}); err != nil {
		return nil, err
	}
	broken := map[string]error{}
	for _, t := range trials() {
		if r.Layer(t.layer).State != Enforced {
			continue
		}
		if got := t.try(g); !errors.Is(got, t.want) {
			broken[t.layer] = fmt.Errorf("a job gets %w, not %w", orSuccess(got), orSuccess(t.want))
		}
	}
	return broken, nil
}

var errSuccess = errors.New("through")

func orSuccess(err error) error {
	if err == nil {
		return errSuccess
	}
	return err
}

// prepare makes the grounds; done closes their sockets.
func (g grounds) prepare() (done func(), err error) {
	for _, dir := range []string{"home/a", "home/b", "out"} {
		err = errors.Join(err, os.MkdirAll(g.in(dir), 0o700))
	}
	for _, file := range []string{"home/a/file", "out/file"} {
		err = errors.Join(err, os.WriteFile(g.in(file), nil, 0o600))
	}
	var fds []int
	for _, name := range []string{"@" + g.abstract, g.in("out/socket")} {
		fd, lerr := listening(name)
		err = errors.Join(err, lerr)
		fds = append(fds, fd)
	}
	return func() {
		for _, fd := range slices.DeleteFunc(fds, func(fd int) bool { return fd < 0 }) {
			unix.Close(fd)
		}
	}, err
}

func opened(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// windowOfNull asks a device that has no window for its size.
func windowOfNull(grounds) error {
	fd, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	return err
}

// The sockets are made without the runtime's poller, whose other threads are
// not confined.

func listening(name string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("make socket: %w", err)
	}
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: name}), unix.Listen(fd, 1)); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("listen on %s: %w", name, err)
	}
	return fd, nil
}

func connected(name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: name})
}
