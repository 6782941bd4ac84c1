package proctree

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Cgroup is a control group (version 2) that holds the processes of one job,
// whatever they do to their parents, groups and sessions.
//
// The runner is born in it, by CLONE_INTO_CGROUP, so its scripts are too; it
// leaves the group when that is to be killed. The script can not be put in at
// its own birth: clone3, which that takes, is among what it is confined from.
type Cgroup struct {
	Path string // of its directory
}

// cgroupPrefix begins the names of our groups.
const cgroupPrefix = "shellctl-"

// CgroupBase returns the directory below which this process may make groups and
// kill them at once (cgroup.kill, Linux 5.14), or an error that says why it may not.
func CgroupBase() (string, error) {
	mount, err := cgroupMount()
	if err != nil {
		return "", err
	}
	own, err := ownCgroup()
	if err != nil {
		return "", err
	}
	base := filepath.Join(mount, own)
	if err := unix.Access(base, unix.W_OK); err != nil {
		return "", fmt.Errorf("use cgroup %s: %w", base, err)
	}
	probe, err := NewCgroup(base, "probe")
	if err != nil {
		return "", err
	}
	_, err = os.Stat(filepath.Join(probe.Path, "cgroup.kill"))
	_, rerr := probe.Remove()
	return base, errors.Join(err, rerr)
}

// cgroupMount finds where the version 2 hierarchy is mounted.
func cgroupMount() (string, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("find cgroup mount: %w", err)
	}
	for line := range bytes.Lines(b) {
		f := strings.Fields(string(line))
		for i := 6; i+1 < len(f); i++ { // the type follows the separator (proc_pid_mountinfo(5))
			if f[i] == "-" && f[i+1] == "cgroup2" && f[3] == "/" {
				return f[4], nil
			}
		}
	}
	return "", errors.New("find cgroup mount: version 2 is not mounted")
}

// ownCgroup is the group of this process in the version 2 hierarchy.
func ownCgroup() (string, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("find own cgroup: %w", err)
	}
	for line := range bytes.Lines(b) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "0::"); ok {
			return p, nil
		}
	}
	return "", errors.New("find own cgroup: none of version 2")
}

// NewCgroup makes a group. Its name tells whose it is.
func NewCgroup(base, name string) (Cgroup, error) {
	c := Cgroup{filepath.Join(base, fmt.Sprintf("%s%s-%d-%s", cgroupPrefix, pidNamespace(), os.Getpid(), name))}
	if err := os.Mkdir(c.Path, 0o755); err != nil {
		return c, fmt.Errorf("make cgroup: %w", err)
	}
	return c, nil
}

// Open opens the group for starting processes in it.
func (c Cgroup) Open() (*os.File, error) {
	f, err := os.OpenFile(c.Path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	return f, nil
}

// Leave moves this process to the group above.
func (c Cgroup) Leave() error {
	if err := os.WriteFile(filepath.Join(filepath.Dir(c.Path), "cgroup.procs"), []byte("0"), 0); err != nil {
		return fmt.Errorf("leave cgroup: %w", err)
	}
	return nil
}

// Kill sends SIGKILL to everything in the group, at once for all.
func (c Cgroup) Kill() error {
	if err := os.WriteFile(filepath.Join(c.Path, "cgroup.kill"), []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("kill cgroup: %w", err)
	}
	return nil
}

// Remove removes the group and reports whether it is gone. One that still has
// processes stays, without an error: those outlive their job.
func (c Cgroup) Remove() (bool, error) {
	err := unix.Rmdir(c.Path)
	switch {
	case err == nil || errors.Is(err, unix.ENOENT):
		return true, nil
	case errors.Is(err, unix.EBUSY):
		return false, nil
	}
	return false, fmt.Errorf("remove cgroup: %w", err)
}

// pidNamespace names the namespace in which the pids of this process count.
func pidNamespace() string {
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "0" // no /proc, no cgroups either
	}
	return strings.Trim(link, "pid:[]")
}

// SweepCgroups removes the empty groups below base that processes which are gone
// have left there, and those of an earlier process with our pid. Call it before
// making any: those of a living process may be about to be used.
func SweepCgroups(base string) {
	ours := cgroupPrefix + pidNamespace() + "-"
	dirs, err := filepath.Glob(filepath.Join(base, ours+"*"))
	if err != nil {
		return // the pattern is ours
	}
	for _, d := range dirs {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(d), ours), "-")
		if _, err := os.Stat("/proc/" + owner); err == nil && owner != strconv.Itoa(os.Getpid()) {
			continue
		}
		_, _ = Cgroup{d}.Remove() // not empty, or gone meanwhile
	}
}
