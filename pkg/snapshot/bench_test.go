package snapshot

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// benchVar is the size in MB of the tree that the benchmarks use. The bars are
// set for 500.
const benchVar = "SNAPSHOT_BENCH_MB"

// mixedTree makes a home of source files, logs, programs and packed data.
func mixedTree(b *testing.B, dir string) {
	b.Helper()
	mb := 64
	if s := os.Getenv(benchVar); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			b.Fatal(err)
		}
		mb = n
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		b.Fatal(err)
	}
	source := sourceText(32<<20, 1)
	rnd := rand.New(rand.NewPCG(1, 1))
	for left, n := mb<<20, 0; left > 0; n++ {
		sub := filepath.Join(dir, fmt.Sprintf("d%d", n%40), fmt.Sprintf("e%d", n%400))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			b.Fatal(err)
		}
		var data string
		switch k := rnd.IntN(1000); {
		case k < 985: // small source
			at, size := rnd.IntN(len(source)-64<<10), 1<<10+rnd.IntN(40<<10)
			data = source[at : at+size]
		case k < 990: // a log
			for size := 1 << 20; len(data) < size; {
				data += logText(rnd, 64<<10)
			}
		case k < 995: // a program
			at := rnd.IntN(len(program) / 2)
			data = string(program[at : at+min(3<<20, len(program)-at)])
		default:
			data = randomText(64<<10+rnd.IntN(2<<20), rnd.Uint64())
		}
		data = data[:min(len(data), left)]
		left -= len(data)
		if err := os.WriteFile(filepath.Join(sub, strconv.Itoa(n)), []byte(data), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(mb) << 20)
}

func logText(rnd *rand.Rand, size int) string {
	var data []byte
	for len(data) < size {
		data = fmt.Appendf(data, "2026-01-01T00:%02d:%02dZ level=info job=%08x msg=\"request done\" ms=%d\n",
			rnd.IntN(60), rnd.IntN(60), rnd.Uint32(), rnd.IntN(1000))
	}
	return string(data)
}

// cost is what a process took.
type cost struct {
	time time.Duration
	cpu  time.Duration
	rss  int64 // KiB at the peak, of a helper only
}

func measure(b *testing.B, cmd *exec.Cmd, in, out string) cost {
	b.Helper()
	if in != "" {
		f, err := os.Open(in)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		cmd.Stdin = f
	}
	if out != "" {
		f, err := os.OpenFile(out, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		cmd.Stdout = f
	}
	var log strings.Builder
	cmd.Stderr = &log
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatalf("%s: %v: %s", cmd, err, &log)
	}
	c := cost{time: time.Since(begin), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if _, peak, ok := strings.Cut(log.String(), "VmHWM:"); ok {
		if _, err := fmt.Sscan(peak, &c.rss); err != nil {
			b.Fatal(err)
		}
	}
	return c
}

// helperCommand runs a snapshot in a process of its own, as the tools run.
func helperCommand(helper, home string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{helperVar + "=" + helper, "HOME=" + home}
	return cmd
}

// reportCosts compares the medians, which one busy moment does not move. On a
// machine that others use too, processor time says more than time.
func reportCosts(b *testing.B, ours, theirs []cost) {
	median := func(list []cost, of func(cost) time.Duration) float64 {
		times := make([]time.Duration, 0, len(list))
		for _, c := range list {
			times = append(times, of(c))
		}
		slices.Sort(times)
		return times[len(times)/2].Seconds()
	}
	wall := func(c cost) time.Duration { return c.time }
	cpu := func(c cost) time.Duration { return c.cpu }
	b.ReportMetric(median(ours, wall), "s-ours")
	b.ReportMetric(median(theirs, wall), "s-tools")
	b.ReportMetric(median(ours, wall)/median(theirs, wall), "x-time")
	b.ReportMetric(median(ours, cpu)/median(theirs, cpu), "x-cpu")
	rss := slices.MaxFunc(ours, func(a, b cost) int { return int(a.rss - b.rss) }).rss
	b.ReportMetric(float64(rss)/1024, "MB-rss")
}

// BenchmarkSave runs beside tar and zstd on the same tree.
func BenchmarkSave(b *testing.B) {
	needTools(b)
	base := memDir(b)
	home, ours, theirs := filepath.Join(base, "home"), filepath.Join(base, "ours"), filepath.Join(base, "theirs")
	mixedTree(b, home)
	var a, t []cost
	for b.Loop() {
		a = append(a, measure(b, helperCommand("save", home), "", ours))
		t = append(t, measure(b, exec.Command("sh", "-c", "tar -C "+home+" -cf - . | zstd -3 -T0 -q"), "", theirs))
	}
	reportCosts(b, a, t)
	b.ReportMetric(float64(fileSize(b, ours))/float64(fileSize(b, theirs)), "x-size")
}

// BenchmarkRestore runs beside zstd and tar, each with its own archive.
func BenchmarkRestore(b *testing.B) {
	needTools(b)
	base := memDir(b)
	home, ours, theirs := filepath.Join(base, "home"), filepath.Join(base, "ours"), filepath.Join(base, "theirs")
	mixedTree(b, home)
	measure(b, helperCommand("save", home), "", ours)
	measure(b, exec.Command("sh", "-c", "tar -C "+home+" -cf - . | zstd -3 -T0 -q"), "", theirs)
	var a, t []cost
	for b.Loop() {
		out := freshDir(b, filepath.Join(base, "out"))
		a = append(a, measure(b, helperCommand("restore", out), ours, ""))
		out = freshDir(b, out)
		t = append(t, measure(b, exec.Command("sh", "-c", "zstd -dcq | tar -C "+out+" -xf -"), theirs, ""))
	}
	reportCosts(b, a, t)
}

func freshDir(b *testing.B, dir string) string {
	b.Helper()
	if err := os.RemoveAll(dir); err != nil {
		b.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	return dir
}

func fileSize(b *testing.B, name string) int64 {
	b.Helper()
	fi, err := os.Stat(name)
	if err != nil {
		b.Fatal(err)
	}
	return fi.Size()
}

// BenchmarkExcludes asks a thousand patterns about one name in a deep place.
func BenchmarkExcludes(b *testing.B) {
	var patterns []string
	for i := range 250 {
		patterns = append(patterns,
			fmt.Sprintf("name%d", i), fmt.Sprintf("*.ext%d", i), fmt.Sprintf("/top%d/*.o", i), fmt.Sprintf("**/deep%d/*", i))
	}
	ex, err := CompileExcludes(patterns)
	if err != nil {
		b.Fatal(err)
	}
	m := ex.top()
	for range 50 {
		m = m.enter("directory")
	}
	for b.Loop() {
		if m.excluded("ordinary.go", false) {
			b.Fatal("excluded")
		}
	}
}
