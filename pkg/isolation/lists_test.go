package isolation

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const useOther = `cd ../other && (cat secret; (: >> secret) && echo written; rm victim && echo removed; ./program && echo run) 2>/dev/null`

func TestLists(t *testing.T) {
	for _, tt := range []struct {
		name string
		add  func(*Policy, site)
		want string
	}{
		{"none", func(*Policy, site) {}, ""},
		{"RW", func(p *Policy, s site) { p.RW = []string{"/nonexistent", s.Other} }, "secretwritten\nremoved\nrun"},
		{"RO", func(p *Policy, s site) { p.RO = append(p.RO, s.Other, s.Root+"/none/x") }, "secretrun"},
	} {
		s := newSite(t, nobody)
		p := defaults(t)
		tt.add(&p, s)
		if got := shell(t, nobody, s, p, false, useOther); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A file in a list of directories is a mistake that nobody shall run with.
func TestListsRefuse(t *testing.T) {
	s := newSite(t, nobody)
	for name, add := range map[string]func(*Policy, string){
		envRO: func(p *Policy, path string) { p.RO = append(p.RO, path) },
		envRW: func(p *Policy, path string) { p.RW = append(p.RW, path) },
	} {
		for _, path := range []string{s.Other + "/secret", "/" + strings.Repeat("x", 300)} {
			p := defaults(t)
			add(&p, path)
			r := play(t, nobody, plan{Policy: p, Job: s.job(), Argv: []string{s.Script}})
			if !strings.Contains(r.Refused, name) || !strings.Contains(r.Refused, path) || r.Out != "" {
				t.Errorf("%s with %.40s: refused %q, printed %q", name, path, r.Refused, r.Out)
			}
			if probe := p.Probe(); !probe.Refusing || !strings.Contains(probe.String(), r.Refused) {
				t.Errorf("%s with %.40s: reported as %s", name, path, probe)
			}
		}
	}
}

// A device of the operator's list is there to be driven, so ioctls go through;
// the plain ones of the default answer none.
func TestDeviceIoctl(t *testing.T) {
	const try = `python3 -c "
import fcntl,sys
try: fcntl.ioctl(open('/dev/null'), 0x5413, b'12345678')
except OSError as e: print(e.errno)"`
	s := newSite(t, nobody)
	p := defaults(t)
	if got := shell(t, nobody, s, p, false, try); got != "13" {
		t.Errorf("ioctl on a plain device: errno %s, want EACCES", got)
	}
	p.Devices = append(p.Devices, "/dev")
	if got := shell(t, nobody, s, p, false, try); got != "25" {
		t.Errorf("ioctl on a listed device: errno %s, want ENOTTY", got)
	}
}

// Rules hold across mount points below a path, and what is mounted outside
// stays outside.
func TestMountsBelow(t *testing.T) {
	s := newSite(t, 0)
	OnThread(func() {
		must(t, unix.Unshare(unix.CLONE_NEWNS))
		must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		for _, dir := range []string{s.Home, s.Other} {
			must(t, os.Mkdir(dir+"/m", 0o755))
			must(t, unix.Mount("tmpfs", dir+"/m", "tmpfs", 0, ""))
		}
		got := shell(t, 0, s, defaults(t), false,
			`for d in ../home/m ../other/m; do (: > $d/f) 2>/dev/null && echo $d; done; :`)
		if got != "../home/m" {
			t.Errorf("writable mounts = %q", got)
		}
	})
}
