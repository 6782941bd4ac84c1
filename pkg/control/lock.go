package control

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Lock is a server's hold on its state directory. It is a POSIX record lock: the
// kernel names its holder to anyone who asks and drops it when the process ends,
// however that happens. It is dropped too when the process closes any other
// descriptor of the file, so nothing else in a server may open it.
type Lock struct{ f *os.File }

// HeldError says which process holds a lock.
type HeldError struct {
	Path string
	PID  int // 0: unknown, in another pid namespace
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is held by process %d", e.Path, e.PID)
}

// AcquireLock takes the lock on the file at path, which it makes if needed. If
// another process has it, the error is a *HeldError.
func AcquireLock(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	fl := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &fl)
	if err == nil {
		return &Lock{f}, nil
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		holder, herr := holder(f)
		return nil, errors.Join(&HeldError{Path: path, PID: holder}, herr, f.Close())
	}
	return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
}

// Release gives the lock up.
func (l *Lock) Release() error { return l.f.Close() }

// LockHolder returns the process that holds the lock, 0 for none.
func LockHolder(path string) (int, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, fmt.Errorf("open lock: %w", err)
	}
	defer f.Close() // only asked about
	return holder(f)
}

func holder(f *os.File) (int, error) {
	fl := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &fl); err != nil {
		return 0, fmt.Errorf("ask for lock holder: %w", err)
	}
	if fl.Type == unix.F_UNLCK {
		return 0, nil
	}
	return int(fl.Pid), nil
}
