package applets

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Less free space than this can not take a job's output.
const (
	leastSpace  = 64 << 20
	littleSpace = 1 << 30
	fewFiles    = 10000
)

func checkState(dir string) []finding {
	at := dir // the directory itself, or where it would be made
	for {
		st, err := os.Stat(at)
		if err == nil && st.IsDir() {
			break
		}
		if err == nil || !errors.Is(err, os.ErrNotExist) || at == filepath.Dir(at) {
			return []finding{broken("state", fmt.Sprintf("%s: %v", at, errors.Join(err, unix.ENOTDIR)), "give another --state-dir")}
		}
		at = filepath.Dir(at)
	}
	found := []finding{checkSpace(at)}
	if err := tryState(at); err != nil {
		return append(found, broken("state", err.Error(), "give the server's user a --state-dir that it owns, on a local file system"))
	}
	if inHome(dir) {
		return append(found, warned("state", dir+" lies in HOME: a job with this HOME can change the record and other jobs' files",
			"give a --state-dir outside of it"))
	}
	return append(found, ok("state", dir))
}

// tryState does in a directory what the record and the runners do: write
// through, lock, listen on a socket, rename.
func tryState(at string) error {
	dir, err := os.MkdirTemp(at, ".shellctl-doctor-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	f, err := os.OpenFile(filepath.Join(dir, "file"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString("x"); err != nil {
		return err
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := errors.Join(f.Sync(), unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock)); err != nil {
		return fmt.Errorf("sync and lock in %s: %w", at, err)
	}
	// By a relative name, since a path may be too long for a socket.
	if err := os.Chdir(dir); err != nil {
		return err
	}
	l, err := net.Listen("unix", "socket")
	if err != nil {
		return err
	}
	return errors.Join(l.Close(), os.Rename("file", "renamed"))
}

func checkSpace(at string) finding {
	var fs unix.Statfs_t
	if err := unix.Statfs(at, &fs); err != nil {
		return warned("space", err.Error(), "")
	}
	free := fs.Bavail * uint64(fs.Bsize)
	detail := fmt.Sprintf("%d MiB and %d files free", free>>20, fs.Ffree)
	const advice = "free space, or give another --state-dir; SHELLCTL_MAX_OUTPUT_BYTES bounds the output of a job"
	switch {
	case free < leastSpace:
		return broken("space", detail, advice)
	case free < littleSpace || fs.Files > 0 && fs.Ffree < fewFiles:
		return warned("space", detail, advice)
	}
	return ok("space", detail)
}
