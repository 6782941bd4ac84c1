package snapshot

import (
	"io"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Descriptors are plain numbers here: an os.File would cost two more system
// calls for each of the many small files, for a poller that has no use for them.

const (
	dirFlags  = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	readFlags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	makeFlags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
)

// inode identifies a file while it exists.
type inode struct{ dev, ino uint64 }

func inodeOf(st *unix.Stat_t) inode { return inode{dev: st.Dev, ino: st.Ino} }

// retry repeats a call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

func openat(dir int, name string, flags int, mode uint32) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(dir, name, flags, mode)
		return err
	})
	return fd, err
}

// lstatat says what stands under the name, not where it leads.
func lstatat(dir int, name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return st, err
}

// readlinkat returns a link's target whatever its length.
func readlinkat(dir int, name string) (string, error) {
	for size := 256; ; size *= 2 {
		buf := make([]byte, size)
		n, err := unix.Readlinkat(dir, name, buf)
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

// readFull reads until p is full or the file ends. Its error is never io.EOF.
func readFull(fd int, p []byte) (n int, err error) {
	for n < len(p) {
		var k int
		if err := retry(func() error { k, err = unix.Read(fd, p[n:]); return err }); err != nil {
			return n, err
		}
		if k == 0 {
			break
		}
		n += k
	}
	return n, nil
}

// writeAt writes all of p at the offset.
func writeAt(fd int, p []byte, off int64) error {
	for len(p) > 0 {
		var n int
		if err := retry(func() (err error) { n, err = unix.Pwrite(fd, p, off); return err }); err != nil {
			return err
		}
		if n == 0 {
			return io.ErrShortWrite
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// setTime sets the modification time of a name, of a link itself if it is one.
func setTime(dir int, name string, t time.Time) error {
	times := []unix.Timespec{
		{Nsec: unix.UTIME_OMIT},
		{Sec: t.Unix(), Nsec: int64(t.Nanosecond())},
	}
	return retry(func() error { return unix.UtimesNanoAt(dir, name, times, unix.AT_SYMLINK_NOFOLLOW) })
}

// makeEnterable gives the owner all rights to a directory that may be closed to
// everybody. There is no chmod that follows no link on every kernel, so the
// directory is pinned first and changed through its descriptor's name.
func makeEnterable(dir int, name string) error {
	fd, err := openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return retry(func() error { return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700) })
}
