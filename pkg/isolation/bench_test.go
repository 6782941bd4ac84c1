package isolation

import (
	"os"
	"syscall"
	"testing"
)

// BenchmarkStart is a job's start to its exit; the difference to off is what
// isolation costs.
func BenchmarkStart(b *testing.B) {
	p, _, _ := FromEnviron(func(string) (string, bool) { return "", false })
	shared := p
	shared.PTYs = PTYsAll
	limited := shared
	limited.Limits = Limits{NoFile: 1024}
	for _, bb := range []struct {
		name string
		p    Policy
	}{{"off", Policy{}}, {"seccomp", Policy{Seccomp: true}}, {"shared", shared}, {"private", p}, {"limited", limited}} {
		b.Run(bb.name, func(b *testing.B) {
			s := newSite(b, os.Getuid())
			for b.Loop() {
				startTrue(b, bb.p, s.job())
			}
		})
	}
}

func startTrue(b *testing.B, p Policy, job Job) {
	var pid int
	var err error
	var cell *Cell
	OnThread(func() {
		if cell, err = p.Enter(); err != nil {
			return
		}
		if err = cell.Restrict(job); err != nil {
			return
		}
		pid, err = cell.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{})
	})
	must(b, err)
	_, err = syscall.Wait4(pid, nil, 0, nil)
	must(b, err)
	must(b, cell.Close())
}
