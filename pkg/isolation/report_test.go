package isolation

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// The report must say of every ABI what TestAttempts shows a job to find there.
func TestDescribeABIs(t *testing.T) {
	since := map[string]int{
		"paths": 1, "refer": 2, "truncate": 3, "tcp_connect": 4, "ioctl_dev": 5,
		"signals": 6, "abstract_sockets": 6, "path_sockets": 9, "ptys": 1, "shared_memory": 1,
	}
	for abi := range newestABI + 3 {
		p := defaults(t)
		p.ConnectPorts = []uint16{443}
		r := p.Describe(Kernel{ABI: abi, NoLandlock: "no Landlock here"})
		for name, from := range since {
			l := r.Layer(name)
			if got, want := l.State == Enforced, abi >= from; got != want {
				t.Errorf("ABI %d: %+v, want enforced %v", abi, l, want)
			}
			if l.State == Missing && l.Detail == "" {
				t.Errorf("ABI %d: %s is missing without a reason", abi, name)
			}
		}
		if r.KernelABI != abi || r.ABI != min(abi, newestABI) {
			t.Errorf("ABI %d: reported as %d, used as %d", abi, r.KernelABI, r.ABI)
		}
	}
}

func TestDescribeCap(t *testing.T) {
	p := defaults(t)
	p.MaxABI = 2
	r := p.Describe(Kernel{ABI: 7})
	if r.KernelABI != 7 || r.ABI != 2 || r.Layer("truncate").State != Missing {
		t.Errorf("capped report = %+v", r)
	}
}

func TestDescribeOff(t *testing.T) {
	r := Policy{}.Describe(Kernel{ABI: 7})
	for _, l := range r.Layers {
		if want := Off; l.Name != "rlimits" && l.State != want {
			t.Errorf("%+v, want %s", l, want)
		}
	}
	if r.ABI != 0 || r.Refusing {
		t.Errorf("report of nothing = %+v", r)
	}
}

func TestRequire(t *testing.T) {
	ports := []uint16{}
	for i, tt := range []struct {
		p    Policy
		k    Kernel
		want bool
	}{
		{Policy{Paths: true, Require: true}, Kernel{ABI: 1}, false},
		{Policy{Paths: true, Require: true}, Kernel{}, true},
		{Policy{Paths: true}, Kernel{}, false},
		{Policy{Require: true}, Kernel{}, false},
		{Policy{Paths: true, Require: true, BindPorts: ports}, Kernel{ABI: 3}, true},
		{Policy{Paths: true, Require: true, BindPorts: ports}, Kernel{ABI: 4}, false},
		{Policy{Seccomp: true, Require: true}, Kernel{NoSeccomp: "none"}, true},
	} {
		r := tt.p.Describe(tt.k)
		if r.Refusing != tt.want || strings.Contains(r.String(), "refused") != tt.want {
			t.Errorf("%d: refusing = %v, want %v: %s", i, r.Refusing, tt.want, r)
		}
	}
}

// What is refused in the report is refused to the job.
func TestRequireRefuses(t *testing.T) {
	s := newSite(t, nobody)
	p := defaults(t)
	p.MaxABI, p.BindPorts = 3, []uint16{}
	job := plan{Policy: p, Job: s.job(), Argv: []string{s.Script}}
	if r := play(t, nobody, job); r.Refused != "" {
		t.Errorf("not required, and refused: %s", r.Refused)
	}
	job.Policy.Require = true
	r := play(t, nobody, job)
	if !strings.Contains(r.Refused, "required but missing") || r.Out != "" {
		t.Errorf("required: refused %q, printed %q", r.Refused, r.Out)
	}
}

func TestProbe(t *testing.T) {
	r := defaults(t).Probe()
	if r.KernelABI < abiScopes || r.Layer("seccomp").State != Enforced {
		t.Errorf("this kernel: %s", r)
	}
	b, err := json.Marshal(r)
	must(t, err)
	want := fmt.Sprintf(`{"kernel_landlock_abi":%d,"landlock_abi":%[1]d,"required":false,"refusing":false,"layers":[{"name":"paths","state":"enforced"}`, r.KernelABI)
	if !strings.HasPrefix(string(b), want) {
		t.Errorf("JSON = %s, want %s…", b, want)
	}
	t.Log(r)
}
