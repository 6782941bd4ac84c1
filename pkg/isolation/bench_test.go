package isolation

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"time"
)

// BenchmarkStart times a job from its start to its exit under each policy in
// turn, so that a busy machine is busy for all of them, and reports how much
// the median of each is above no isolation at all.
func BenchmarkStart(b *testing.B) {
	private, _, _ := FromEnviron(func(string) (string, bool) { return "", false })
	shared := private
	shared.PTYs = PTYsAll // what a runner has that may not mount
	limited := shared
	limited.Limits = Limits{NoFile: 1024}
	policies := []Policy{{}, {Seccomp: true}, shared, private, limited}
	names := []string{"off", "seccomp", "shared", "private", "limited"}
	took := make([][]time.Duration, len(policies))
	s := newSite(b, os.Getuid())
	for b.Loop() {
		for i, p := range policies {
			took[i] = append(took[i], timeTrue(b, p, s.job()))
		}
	}
	off := median(took[0])
	for i := range policies[1:] {
		b.ReportMetric(float64((median(took[i+1]) - off).Microseconds()), names[i+1]+"-µs")
	}
	b.ReportMetric(float64(off.Microseconds()), "off-µs")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func timeTrue(b *testing.B, p Policy, job Job) time.Duration {
	start := time.Now()
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
	took := time.Since(start)
	must(b, err)
	must(b, cell.Close())
	return took
}
