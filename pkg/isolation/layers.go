package isolation

import (
	"cmp"
	"fmt"
)

// describeLandlock reports each right by itself: they came one by one.
func (p Policy) describeLandlock(abi int, k Kernel) []Layer {
	right := func(name string, since int, without string) Layer {
		switch {
		case !p.Paths:
			return Layer{name, Off, ""}
		case abi == 0:
			return Layer{name, Missing, cmp.Or(k.NoLandlock, "Landlock is missing")}
		case abi < since:
			return Layer{name, Missing, fmt.Sprintf("needs Landlock ABI %d: %s", since, without)}
		}
		return Layer{name, Enforced, ""}
	}
	return []Layer{
		right("paths", 1, ""),
		right("refer", abiRefer, "rename and link between directories fail with EXDEV"),
		right("truncate", abiTruncate, "a job can empty any file of the user"),
		right("ioctl_dev", abiIoctl, "ioctls on open devices are not limited"),
		right("signals", abiScopes, "a job can signal every process of the user"),
		right("abstract_sockets", abiScopes, "a job can connect to every abstract socket"),
		right("path_sockets", abiPathSockets, "a job can connect to every socket file of the user"),
		p.describePorts(right("tcp_connect", abiTCP, "ports are not limited"), p.ConnectPorts),
		p.describePorts(right("tcp_bind", abiTCP, "ports are not limited"), p.BindPorts),
		p.describePTYs(right("ptys", 1, ""), k),
		p.describeSHM(right("shared_memory", 1, ""), k),
	}
}

func (p Policy) describePorts(l Layer, ports []uint16) Layer {
	switch {
	case ports == nil:
		return Layer{l.Name, Off, "no limit set"}
	case l.State == Enforced:
		l.Detail = fmt.Sprintf("ports %v", ports)
		if !p.Seccomp {
			l.Detail += "; without seccomp Multipath TCP and TCP Fast Open get around it"
		}
	}
	return l
}

func (p Policy) describePTYs(l Layer, k Kernel) Layer {
	switch {
	case l.State != Enforced:
	case p.PTYs == PTYsAll:
		return Layer{l.Name, Off, "all: a job can open every terminal of the user"}
	case k.private.pts:
		l.Detail = "private devpts: a job can open terminals, of its own only"
	default:
		l.Detail = fmt.Sprintf("own: a job can open its own terminal only, openpty fails (%s)", k.NoMounts)
	}
	return l
}

func (p Policy) describeSHM(l Layer, k Kernel) Layer {
	switch {
	case l.State != Enforced:
	case p.PTYs != PTYsAll && k.private.shm:
		l.Detail = "private /dev/shm; System V IPC is not covered"
	default:
		l.Detail = "shared /dev/shm: objects can be opened by name, not listed; System V IPC is not covered"
	}
	return l
}

func (p Policy) describeOthers(k Kernel) []Layer {
	seccomp := Layer{"seccomp", Off, ""}
	if p.Seccomp {
		seccomp.State, seccomp.Detail = Enforced, "32-bit programs do not run"
		if k.NoSeccomp != "" {
			seccomp.State, seccomp.Detail = Missing, k.NoSeccomp
		}
	}
	caps := Layer{"capabilities", Off, ""}
	if p.DropCaps {
		caps.State = Enforced
	}
	limits := Layer{"rlimits", Enforced, p.Limits.String()}
	return []Layer{seccomp, caps, limits}
}

// String lists the limits that are set.
func (l Limits) String() string {
	s := "core 0"
	for _, f := range []struct {
		name  string
		value uint64
	}{{"nofile", l.NoFile}, {"nproc", l.NProc}, {"fsize", l.FSize}, {"as", l.AS}, {"cpu", l.CPU}} {
		if f.value > 0 {
			s += fmt.Sprintf(", %s %d", f.name, f.value)
		}
	}
	return s
}
