package isolation

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mounts tells what a thread has to itself.
type mounts struct {
	pts bool // /dev/pts and /dev/ptmx
	shm bool // /dev/shm
}

// mountPrivate moves the calling thread to a mount namespace with a /dev/pts
// and a /dev/shm of its own. It needs CAP_SYS_ADMIN, and never a user
// namespace. What it could not do it leaves as it was; err says why.
func mountPrivate() (m mounts, err error) {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return m, fmt.Errorf("unshare mounts: %w", err)
	}
	// Mounts made outside later still show up, ours stay here.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return m, fmt.Errorf("detach mounts: %w", err)
	}
	if err := mountPTS(); err != nil {
		return m, fmt.Errorf("mount devpts: %w", err)
	}
	m.pts = true
	if err := mountSHM(); err != nil {
		return m, fmt.Errorf("mount /dev/shm: %w", err)
	}
	m.shm = true
	return m, nil
}

// mountPTS mounts a new instance. The kernel lets /dev/ptmx open the instance
// that is mounted on pts beside it.
func mountPTS() error {
	const options = "newinstance,ptmxmode=0666,mode=0620"
	const flags = unix.MS_NOSUID | unix.MS_NOEXEC
	// Old C libraries insist on the group tty, which has this number on every
	// distribution but may have none in a user namespace.
	err := unix.Mount("devpts", "/dev/pts", "devpts", flags, options+",gid=5")
	if err != nil {
		err = unix.Mount("devpts", "/dev/pts", "devpts", flags, options)
	}
	return err
}

// mountSHM mounts a tmpfs as large as the one it covers.
func mountSHM() error {
	var fs unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &fs); err != nil {
		return err
	}
	options := fmt.Sprintf("mode=1777,size=%d", fs.Blocks*uint64(fs.Bsize))
	return unix.Mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options)
}
