package applets_test

import (
	"strings"
	"testing"

	"shellctl/pkg/client"
)

// rootAttempts are those that only a job of root could make.
func rootAttempts() []attempt {
	return []attempt{
		{name: "make a disk", script: `try mknod $HOME/disk && rm $HOME/disk`, want: "ermi"}, // either errno
		{name: "mount over HOME", script: `try mount_over $HOME`, want: eperm},
		{name: "mount by a tool", script: `unshare -m sh -c 'mount -t tmpfs none /opt'`, want: eperm},
		{name: "enter other mounts", script: `try enter_mounts $SERVER`, want: "ermi"},
		{name: "open by handle", script: `try by_handle $OTHER/secret`, want: eperm},
		{name: "write a kernel setting", script: `cat /proc/sys/kernel/hostname > /proc/sys/kernel/hostname`, want: eacces},
		{name: "write a system directory", script: `touch /usr/local/lib/shellctl-test-x && rm /usr/local/lib/shellctl-test-x`, want: eacces},
		{name: "change the password file", script: `: >> /etc/passwd`, want: eacces},
	}
}

// TestEscapesAsRoot: a job of root is held as one of a plain user, and what is
// hidden from it can be seen by root without isolation.
func TestEscapesAsRoot(t *testing.T) {
	needRoot(t)
	list := append(fileAttempts(), stateAttempts()...)
	for _, a := range processAttempts() {
		if a.always = false; strings.HasPrefix(a.name, "descriptors") {
			continue // whose names root may list, and not open
		}
		list = append(list, a)
	}
	list = append(append(list, kernelAttempts()...), rootAttempts()...)
	s := newSite(t, 0)
	s.installInt80()
	s.wantDenied(list, "pty")
	s.wantUntouched()
	off := newSite(t, 0, isolationOff)
	off.installInt80()
	off.wantAllowed(list, "stdio")
}

// TestPrivateTerminals: where the runner may mount, a job has terminals and
// shared memory of its own, and those of others have no name in it.
func TestPrivateTerminals(t *testing.T) {
	needRoot(t)
	s := newSite(t, 0)
	const script = `echo $(ls /dev/pts) $(tty); echo forged > $TTY; touch /dev/shm/private; ls /dev/shm
		python3 -c "import os; m, s = os.openpty(); os.write(m, b'x\n'); print(os.ttyname(s), os.read(s, 2))"`
	for i, mode := range []string{"stdio", "pty"} {
		res := s.runWith(client.RunRequest{Script: script, Mode: mode, Env: s.env})
		want := []string{"ptmx not a tty\nprivate\n/dev/pts/0 b'x\\n'\n", "0 ptmx /dev/pts/0\nforged\nprivate\n/dev/pts/1 b'x\\n'\n"}[i]
		if !strings.HasSuffix(res.Output, want) {
			t.Errorf("%s: a job sees %q, want %q", mode, res.Output, want)
		}
	}
	s.wantUntouched()
}
