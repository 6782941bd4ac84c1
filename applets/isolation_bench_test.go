package applets_test

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkIsolation times a whole job through HTTP, with isolation and without
// in turn, so that a busy machine is busy for both, and reports the medians and
// what isolation costs.
func BenchmarkIsolation(b *testing.B) {
	for name, uid := range map[string]uint32{"user": plainUser, "root": 0} {
		b.Run(name, func(b *testing.B) {
			servers := []*testServer{
				startServer(b, serverOptions{uid: uid}),
				startServer(b, serverOptions{uid: uid, env: []string{isolationOff}}),
			}
			var took [2][]time.Duration
			for b.Loop() {
				for i, s := range servers {
					start := time.Now()
					s.run("true", "stdio")
					took[i] = append(took[i], time.Since(start))
				}
			}
			on, off := middle(took[0]), middle(took[1])
			b.ReportMetric(float64(on.Microseconds()), "on-µs")
			b.ReportMetric(float64(off.Microseconds()), "off-µs")
			b.ReportMetric(float64((on - off).Microseconds()), "cost-µs")
		})
	}
}

func middle(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
