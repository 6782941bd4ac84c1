package snapshot

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestLiveTree saves while writers do to the tree whatever jobs do. Each save
// must end well, restore, and hold what nobody touched.
func TestLiveTree(t *testing.T) {
	noLeaks(t)
	home := t.TempDir()
	still := nodes{"still": {dir: nodes{
		"text": {data: sourceText(300<<10, 1)}, "small": {data: "s", time: longAgo},
		"link": {link: "text"}, "sub": {dir: nodes{"f": {data: randomText(10<<10, 2), mode: 0o600}}},
	}}, "zz": {data: "last"}}
	still.make(t, home)
	want := readTree(t, home)

	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i, act := range []func(dir string, rnd *rand.Rand, n int) error{appendSome, cutAndGrow, createDelete, renameSome, swapKinds} {
		dir := filepath.Join(home, fmt.Sprintf("m%d", i))
		must(t, os.Mkdir(dir, 0o755))
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 0))
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := act(dir, rnd, n); err != nil {
					t.Errorf("writer %d: %v", i, err)
					return
				}
			}
		})
	}
	defer wg.Wait()
	defer close(stop)

	other := t.TempDir()
	var total SaveStats
	for i := range 100 / slow {
		var b bytes.Buffer
		stats, err := Save(t.Context(), &b, home, SaveOptions{})
		if err != nil {
			t.Fatalf("save %d: %v", i, err)
		}
		total.Skipped += stats.Skipped
		total.Changed += stats.Changed
		copyOf := filepath.Join(other, fmt.Sprint(i))
		must(t, os.Mkdir(copyOf, 0o755))
		restore(t, b.Bytes(), copyOf, RestoreOptions{})
		got := readTree(t, copyOf)
		checkLog(t, filepath.Join(copyOf, "m0/log"))
		maps.DeleteFunc(got, func(p string, _ state) bool { return p[0] == 'm' })
		diffTrees(t, got, want)
		must(t, os.RemoveAll(copyOf))
	}
	t.Logf("%d entries skipped, %d changed", total.Skipped, total.Changed)
}

// logLine is what the appender writes again and again.
const logLine = "0123456789abcde\n"

func appendSome(dir string, rnd *rand.Rand, n int) error {
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if n%500 == 0 {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(filepath.Join(dir, "log"), flags, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(strings.Repeat(logLine, 1+rnd.IntN(30)))
	return err
}

// checkLog checks that a saved log is a beginning of the log, or one with zeros
// where it was cut meanwhile.
func checkLog(t *testing.T, name string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return
	}
	must(t, err)
	data = bytes.TrimRight(data, "\x00")
	want := strings.Repeat(logLine, len(data)/len(logLine)+1)
	if string(data) != want[:len(data)] {
		t.Errorf("log of %d bytes is not what was written", len(data))
	}
}

func cutAndGrow(dir string, rnd *rand.Rand, n int) error {
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint("big", n%2)), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(rnd.Int64N(600 << 10)); err != nil {
		return err
	}
	_, err = f.WriteAt([]byte("data"), rnd.Int64N(300<<10))
	return err
}

func createDelete(dir string, rnd *rand.Rand, n int) error {
	sub := filepath.Join(dir, fmt.Sprint("d", n%7), "e")
	if err := os.MkdirAll(sub, 0o755); err != nil {
		return err
	}
	for i := range rnd.IntN(10) {
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprint(i)), []byte("short-lived"), 0o644); err != nil {
			return err
		}
	}
	return os.RemoveAll(filepath.Dir(sub))
}

func renameSome(dir string, rnd *rand.Rand, n int) error {
	names := []string{"a", "b", "c/a", "c/b"}
	if n == 0 {
		if err := os.Mkdir(filepath.Join(dir, "c"), 0o755); err != nil {
			return err
		}
	}
	from := filepath.Join(dir, names[rnd.IntN(4)])
	if err := os.WriteFile(from, []byte("renamed"), 0o644); err != nil {
		return err
	}
	return os.Rename(from, filepath.Join(dir, names[rnd.IntN(4)]))
}

// swapKinds lets a name be a file, a directory, a link and a hard link by turns.
func swapKinds(dir string, _ *rand.Rand, n int) error {
	name := filepath.Join(dir, "x")
	if err := os.RemoveAll(name); err != nil {
		return err
	}
	switch n % 4 {
	case 0:
		return os.WriteFile(name, []byte("file"), 0o644)
	case 1:
		return os.MkdirAll(filepath.Join(name, "y"), 0o755)
	case 2:
		return os.Symlink("/etc", name)
	}
	if err := os.WriteFile(name+"2", []byte("twin"), 0o644); err != nil {
		return err
	}
	return os.Link(name+"2", name)
}

// TestGrowAndShrink changes a file between its header and its content.
func TestGrowAndShrink(t *testing.T) {
	home := t.TempDir()
	nodes{"a-grows": {size: 40 << 20}, "b-shrinks": {data: strings.Repeat("s", 40<<20)}, "c": {data: "after"}}.make(t, home)
	w := &onceWriter{act: func() {
		f, err := os.OpenFile(filepath.Join(home, "a-grows"), os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		_, err = f.WriteString("more")
		must(t, err)
		must(t, f.Close())
		must(t, os.Truncate(filepath.Join(home, "b-shrinks"), 10))
	}}
	stats, err := Save(t.Context(), w, home, SaveOptions{})
	must(t, err)
	if stats.Entries != 3 || stats.Skipped != 0 || stats.Changed == 0 {
		t.Errorf("Save counted %+v", stats)
	}
	names := entryNames(t, w.Bytes())
	if want := []string{"a-grows", "b-shrinks", "c"}; !slices.Equal(names, want) {
		t.Errorf("saved %q, want %q", names, want)
	}
	restore(t, w.Bytes(), t.TempDir(), RestoreOptions{})
}

// onceWriter does something at the first byte.
type onceWriter struct {
	bytes.Buffer
	act func()
}

func (w *onceWriter) Write(p []byte) (int, error) {
	if w.act != nil {
		w.act()
		w.act = nil
	}
	return w.Buffer.Write(p)
}
