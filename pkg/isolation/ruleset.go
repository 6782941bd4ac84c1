package isolation

import (
	"errors"
	"fmt"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// ruleset is a Landlock ruleset that is being filled.
type ruleset struct {
	fd      int
	flags   uint32
	handled uint64 // rights to files the ruleset restricts
}

// newRuleset returns an empty ruleset: everything in c is denied. Rules are
// added here and not by the library, since it takes paths: a HOME must be
// looked at and granted through one descriptor.
func newRuleset(c landlock.Config) (*ruleset, error) {
	fd, flags, err := c.NewRulesetFD()
	if err != nil {
		return nil, fmt.Errorf("create ruleset: %w", err)
	}
	return &ruleset{fd: fd, flags: flags, handled: uint64(c.HandledAccessFS)}, nil
}

// enforce restricts the calling thread; no_new_privs must be set.
func (r *ruleset) enforce() error {
	if err := ll.LandlockRestrictSelf(r.fd, r.flags); err != nil {
		return fmt.Errorf("enforce ruleset: %w", err)
	}
	return nil
}

func (r *ruleset) close() { unix.Close(r.fd) }

// allowFD grants rights to an open file, or a directory and all below it.
func (r *ruleset) allowFD(fd int, rights uint64) error {
	rights &= r.handled
	err := r.addPath(fd, rights)
	if errors.Is(err, unix.EINVAL) && rights&fileRights != rights {
		err = r.addPath(fd, rights&fileRights) // not a directory
	}
	return err
}

func (r *ruleset) addPath(fd int, rights uint64) error {
	if rights == 0 {
		return nil
	}
	return ll.LandlockAddPathBeneathRule(r.fd, &ll.PathBeneathAttr{ParentFd: fd, AllowedAccess: rights}, 0)
}

// allow grants rights to a path that must be there; none grants nothing.
func (r *ruleset) allow(rights uint64, path string) error {
	if path == "" {
		return nil
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	if err := r.allowFD(fd, rights); err != nil {
		return fmt.Errorf("allow %s: %w", path, err)
	}
	return nil
}

// allowAny grants rights to those of the paths that can be reached: what the
// runner can not reach the job could not either.
func (r *ruleset) allowAny(rights uint64, paths ...string) error {
	for _, path := range paths {
		if err := r.allow(rights, path); err != nil && !unreachable(err) {
			return err
		}
	}
	return nil
}

// allowTrees grants rights to those of the directories that can be reached. A
// file among them is an error, as it is in the system this replaces: who lists
// one has mistaken the list, and it is not ours to guess what for.
func (r *ruleset) allowTrees(name string, rights uint64, dirs ...string) error {
	for _, dir := range dirs {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
		if unreachable(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: open %s: %w", name, dir, err)
		}
		err = r.addPath(fd, rights&r.handled)
		unix.Close(fd)
		if errors.Is(err, unix.EINVAL) {
			err = unix.ENOTDIR
		}
		if err != nil {
			return fmt.Errorf("%s: allow %s: %w", name, dir, err)
		}
	}
	return nil
}

func unreachable(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) ||
		errors.Is(err, unix.EACCES) || errors.Is(err, unix.ELOOP)
}

// allowPorts grants TCP ports. Rights the ruleset does not handle are refused
// by the kernel, so it is called only for a handled one.
func (r *ruleset) allowPorts(right uint64, ports []uint16) error {
	for _, port := range ports {
		attr := ll.NetPortAttr{AllowedAccess: right, Port: uint64(port)}
		if err := ll.LandlockAddNetPortRule(r.fd, &attr, 0); err != nil {
			return fmt.Errorf("allow port %d: %w", port, err)
		}
	}
	return nil
}
