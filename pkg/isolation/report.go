package isolation

import (
	"fmt"
	"strings"
)

// State says what became of a layer.
type State string

const (
	Enforced State = "enforced"
	Off      State = "off"     // by the policy
	Missing  State = "missing" // asked for, but the kernel or the rights do not allow it
)

// Layer is one part of the confinement. Detail says what the state means: why a
// layer is missing, and what follows for jobs.
type Layer struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Detail string `json:"detail,omitempty"`
}

// Report tells what jobs of a policy are confined by on this machine.
type Report struct {
	KernelABI int     `json:"kernel_landlock_abi"` // 0: no Landlock
	ABI       int     `json:"landlock_abi"`        // the one in use
	Required  bool    `json:"required"`
	Refusing  bool    `json:"refusing"`         // required and missing, or broken: no job will run
	Broken    string  `json:"broken,omitempty"` // why the rules can not be made
	Layers    []Layer `json:"layers"`
}

// Describe says what the policy amounts to on a kernel.
func (p Policy) Describe(k Kernel) Report {
	r := Report{KernelABI: k.ABI, Required: p.Require}
	if p.Paths {
		r.ABI = p.usableABI(k.ABI)
	}
	r.Layers = append(p.describeLandlock(r.ABI, k), p.describeOthers(k)...)
	r.Refusing = p.Require && (p.Paths && p.lacking(r.ABI, k.NoLandlock) != nil ||
		p.Seccomp && k.NoSeccomp != "")
	return r
}

// Missing returns the layers that were asked for and are not enforced.
func (r Report) Missing() []Layer {
	var out []Layer
	for _, l := range r.Layers {
		if l.State == Missing {
			out = append(out, l)
		}
	}
	return out
}

// Layer returns a layer by name, or a zero Layer.
func (r Report) Layer(name string) Layer {
	for _, l := range r.Layers {
		if l.Name == name {
			return l
		}
	}
	return Layer{}
}

// String is the report in one line, for the log at start.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "landlock ABI %d (kernel %d)", r.ABI, r.KernelABI)
	for _, state := range []State{Enforced, Missing, Off} {
		var names []string
		for _, l := range r.Layers {
			if l.State == state {
				names = append(names, l.Name)
			}
		}
		if len(names) > 0 {
			fmt.Fprintf(&b, "; %s: %s", state, strings.Join(names, " "))
		}
	}
	if r.Refusing {
		b.WriteString("; jobs are refused")
	}
	if r.Broken != "" {
		b.WriteString(": " + r.Broken)
	}
	return b.String()
}
