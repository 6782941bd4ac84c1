package applets_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkFiles times jobs that write and read back many small files or a large
// one in the server's home, under isolation and record, against the same shell
// started directly, and a save and a restore of that home.
func BenchmarkFiles(b *testing.B) {
	for _, tree := range []struct{ name, script string }{
		{"1000x4KiB", "head -c 4096000 /dev/urandom | split -b 4096 -a 4 - f. && cat f.* | cksum"},
		{"16MiB", "head -c 16777216 /dev/urandom >f.large && cat f.large | cksum"},
	} {
		b.Run("files="+tree.name, func(b *testing.B) {
			s := shippedServer(b, serverOptions{})
			var job, direct, save, restore []time.Duration
			for b.Loop() {
				for range 5 {
					direct = append(direct, s.emptied(func() {
						cmd := exec.Command("sh", "-c", tree.script)
						cmd.Dir = s.home
						if out, err := cmd.CombinedOutput(); err != nil {
							b.Fatalf("%v\n%s", err, out)
						}
					}))
					job = append(job, s.emptied(func() { wantExit(b, s.runWith(wholeRun(tree.script, "stdio")), "exited", 0) }))
				}
				begin := time.Now()
				archive, _ := s.save()
				save = append(save, time.Since(begin))
				restore = append(restore, s.emptied(func() { s.restore(archive) }))
			}
			for name, took := range map[string][]time.Duration{"direct": direct, "job": job, "save": save, "restore": restore} {
				b.ReportMetric(milliseconds(median(took)), name+"-ms")
			}
			b.ReportMetric(float64(median(job))/float64(median(direct)), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// emptied times something in a home from which the files of the last time are gone.
func (s *testServer) emptied(do func()) time.Duration {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.home, "f.*"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			s.t.Fatal(fmt.Errorf("empty home: %w", err))
		}
	}
	begin := time.Now()
	do()
	return time.Since(begin)
}
