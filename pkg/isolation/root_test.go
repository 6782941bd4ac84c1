package isolation

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// rootAttempts are those that only a job of root could make, with Landlock
// looking on.
func rootAttempts() []attempt {
	const disk = unix.S_IFBLK | 0o600
	return []attempt{
		{"make a disk in HOME", func(s site) error {
			return unix.Mknod(s.Home+"/disk", disk, int(unix.Mkdev(7, 0)))
		}, 1, nil, unix.EACCES},
		{"read environ outside", func(s site) error { return procFile(s, "environ") }, 1, nil, unix.EACCES},
		{"read memory map outside", func(s site) error { return procFile(s, "maps") }, 1, nil, unix.EACCES},
		{"read memory outside", func(s site) error { return procFile(s, "mem") }, 1, nil, unix.EACCES},
		{"write a kernel setting", func(site) error {
			return opens("kernel/hostname", os.O_WRONLY)(site{Root: "/proc/sys"})
		}, 1, nil, unix.EACCES},
		{"mount", func(s site) error {
			if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
				return err
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return err
			}
			return unix.Mount("tmpfs", s.Home, "tmpfs", 0, "")
		}, 1, nil, unix.EPERM},
	}
}

func TestRoot(t *testing.T) {
	abi, _ := kernelABI()
	checkOff(t, rootAttempts(), trySet(t, "root", 0, Policy{}))
	check(t, rootAttempts(), trySet(t, "root", 0, defaults(t)), abi)
}

// As root everything holds as for a plain user, but that a job has terminals
// and shared memory to itself and may use them all.
func TestAttemptsAsRoot(t *testing.T) {
	abi, _ := kernelABI()
	got := trySet(t, "files", 0, defaults(t))
	for _, name := range []string{"open /dev/ptmx", "list /dev/shm"} {
		if got[name] != 0 {
			t.Errorf("%s = %v, want success", name, got[name])
		}
		got[name] = unix.EACCES
	}
	check(t, attempts(), got, abi)
}

// Capabilities must not come back with an exec, and only the listed ones go.
func TestDropCaps(t *testing.T) {
	s := newSite(t, 0)
	all := capsOfJob(t, Policy{}, s)
	if all&capsDropped == 0 {
		t.Fatalf("capabilities %x: nothing to drop", all)
	}
	if got, want := capsOfJob(t, Policy{DropCaps: true}, s), all&^capsDropped; got != want {
		t.Errorf("capabilities = %x, want %x", got, want)
	}
	limited := Policy{DropCaps: true, Limits: Limits{NoFile: 50}}
	want := all &^ (capsDropped | 1<<unix.CAP_SYS_RESOURCE)
	if got := capsOfJob(t, limited, s); got != want {
		t.Errorf("capabilities under limits = %x, want %x", got, want)
	}
}
