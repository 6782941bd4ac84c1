package snapshot

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"shellctl/pkg/job"
)

var longAgo = time.Date(2001, 9, 9, 1, 46, 40, 123456789, time.UTC)

// everything is a tree with one of each kind of entry.
var everything = nodes{
	"f.txt":      {data: "hello", mode: 0o640, time: longAgo},
	"empty":      {data: ""},
	"run":        {data: "#!/bin/sh\n", mode: 0o755},
	"secret":     {data: "s", mode: 0o400},
	"odd":        {data: "x", mode: 0o401},
	".hidden":    {data: "h"},
	"new\nline":  {data: "n"},
	"bad\xffutf": {data: "b"},
	"uni-é€😀 sp": {data: "u"},
	" lead":      {data: "l"},
	"-rf":        {data: "r"},
	`back\slash`: {data: "b"},
	"tab\there":  {data: "t"},
	"a=b%3Dc":    {data: "x", xattrs: map[string]string{"user.a=b%3D": "1"}},

	strings.Repeat("n", 255): {data: "long"},

	"ln":       {link: "f.txt", time: longAgo},
	"dangling": {link: "no/where"},
	"abs":      {link: "/etc/passwd"},
	"up":       {link: "../../../etc"},
	"weird":    {link: "\xff\n " + strings.Repeat("t", 1000)},

	"hard1": {data: "shared", time: longAgo},
	"hard2": {hard: "hard1"},
	"d": {mode: 0o555, time: longAgo, dir: nodes{
		"hard3": {hard: "hard1"},
		"void":  {dir: nodes{}, mode: 0o700, time: longAgo.Add(time.Hour)},
		"in":    {data: "read-only directory", time: longAgo},
	}},
	"old":    {data: "o", time: time.Unix(-1000, 500)},
	"far":    {data: "f", time: time.Unix(1<<33, 1)},
	"attrs":  {data: "x", xattrs: map[string]string{"user.k": "v", "user.bin": "\x00\xff\n", "user.void": ""}, mode: 0o444},
	"adir":   {dir: nodes{}, xattrs: map[string]string{"user.dir": "yes"}},
	"sparse": {size: 10<<20 + 7},
	"medium": {data: strings.Repeat("0123456789abcdef", 40<<10)},
}

func save(t *testing.T, home string, opt SaveOptions) ([]byte, SaveStats) {
	t.Helper()
	var b bytes.Buffer
	stats, err := Save(t.Context(), &b, home, opt)
	if err != nil {
		t.Fatalf("Save: %v", err)
	}
	return b.Bytes(), stats
}

func restore(t *testing.T, archive []byte, home string, opt RestoreOptions) RestoreStats {
	t.Helper()
	stats, err := Restore(t.Context(), bytes.NewReader(archive), home, opt)
	if err != nil {
		t.Fatalf("Restore: %v", err)
	}
	return stats
}

// entryNames lists an archive as the tar library sees it.
func entryNames(t *testing.T, archive []byte) []string {
	t.Helper()
	var names []string
	for _, h := range headers(t, archive) {
		names = append(names, h.Name)
	}
	return names
}

func headers(t *testing.T, archive []byte) []*tar.Header {
	t.Helper()
	dec, err := zstd.NewReader(bytes.NewReader(archive))
	must(t, err)
	defer dec.Close()
	var list []*tar.Header
	for r := tar.NewReader(dec); ; {
		h, err := r.Next()
		if err == io.EOF {
			return list
		}
		must(t, err)
		list = append(list, h)
	}
}

func TestRoundTrip(t *testing.T) {
	noLeaks(t)
	home, other := t.TempDir(), t.TempDir()
	everything.make(t, home)
	archive, stats := save(t, home, SaveOptions{})
	want := readTree(t, home)
	if int(stats.Entries) != len(want) || stats.Skipped+stats.Changed+stats.Special != 0 {
		t.Errorf("Save counted %+v of %d entries", stats, len(want))
	}
	for _, round := range []string{"fresh", "again"} {
		got := restore(t, archive, other, RestoreOptions{})
		if got.Entries != stats.Entries {
			t.Errorf("%s: Restore counted %d entries, Save %d", round, got.Entries, stats.Entries)
		}
		diffTrees(t, readTree(t, other), want)
	}
	if !slices.IsSorted(entryNames(t, archive)[:3]) {
		t.Error("names are not sorted")
	}
}

func TestRoundTripAsOwner(t *testing.T) {
	base := openDir(t)
	home, other := filepath.Join(base, "a"), filepath.Join(base, "b")
	everything.make(t, home)
	must(t, os.Mkdir(other, 0o755))
	giveAway(t, base)
	want := readTree(t, home)
	var archive bytes.Buffer
	asNobody(t, "save", home, nil, &archive)
	for range 2 { // the second time over read-only directories
		asNobody(t, "restore", other, bytes.NewReader(archive.Bytes()), nil)
		diffTrees(t, readTree(t, other), want)
	}
}

// TestDeepPath goes deeper than a path may be long and than descriptors last.
func TestDeepPath(t *testing.T) {
	noLeaks(t)
	home, other := t.TempDir(), t.TempDir()
	const depth = 300
	name := strings.Repeat("d", 60)
	makeDeep(t, home, name, depth)
	archive, stats := save(t, home, SaveOptions{})
	if want := int64(2 * depth); stats.Entries != want || stats.Skipped != 0 {
		t.Errorf("Save counted %+v, want %d entries", stats, want)
	}
	if got := restore(t, archive, other, RestoreOptions{}); got.Entries != stats.Entries {
		t.Errorf("Restore counted %+v, Save %+v", got, stats)
	}
	again, _ := save(t, other, SaveOptions{})
	if got, want := entryNames(t, again), entryNames(t, archive); !slices.Equal(got, want) {
		t.Errorf("restored %d names, want %d", len(got), len(want))
	}
}

// makeDeep makes a directory in a directory in a directory, each with a file
// that sorts after it.
func makeDeep(t *testing.T, dir, name string, depth int) {
	t.Helper()
	fd, err := unix.Open(dir, dirFlags, 0)
	must(t, err)
	for range depth {
		must(t, unix.Mkdirat(fd, name, 0o755))
		f, err := openat(fd, "z", makeFlags, 0o644)
		must(t, err)
		unix.Close(f)
		sub, err := openat(fd, name, dirFlags, 0)
		must(t, err)
		unix.Close(fd)
		fd = sub
	}
	unix.Close(fd)
}

func TestSaveLeavesOut(t *testing.T) {
	home := t.TempDir()
	nodes{
		".local": {dir: nodes{"share": {dir: nodes{"shellctl": {dir: nodes{"db": {data: "x"}}}, "app": {data: "a"}}}}},
		"bin":    {dir: nodes{".local": {dir: nodes{"share": {dir: nodes{"shellctl": {data: "not the state"}}}}}}},
		"other":  {dir: nodes{"state": {dir: nodes{"db": {data: "x"}}}}},
		"a.log":  {data: "x"},
		"skip":   {dir: nodes{"me": {data: "x"}}},
	}.make(t, home)
	must(t, unix.Mkfifo(filepath.Join(home, "fifo"), 0o644))
	must(t, unix.Mknod(filepath.Join(home, "sock"), unix.S_IFSOCK|0o644, 0))
	ex, err := CompileExcludes([]string{"*.log", "skip/", "!.local/share/shellctl", "!state"})
	must(t, err)
	archive, stats := save(t, home, SaveOptions{Excludes: ex, StateDir: filepath.Join(home, "other/state")})
	want := []string{
		".local/", ".local/share/", ".local/share/app",
		"bin/", "bin/.local/", "bin/.local/share/", "bin/.local/share/shellctl", "other/",
	}
	if got := entryNames(t, archive); !slices.Equal(got, want) {
		t.Errorf("saved %q, want %q", got, want)
	}
	if stats.Special != 2 || stats.Skipped != 0 {
		t.Errorf("Save counted %+v, want 2 special", stats)
	}
}

// TestSaveStateThroughLink names the state directory by a path with a link.
func TestSaveStateThroughLink(t *testing.T) {
	home := t.TempDir()
	nodes{
		"real": {dir: nodes{"state": {dir: nodes{"db": {data: "x"}}}}},
		"link": {link: "real"},
	}.make(t, home)
	archive, _ := save(t, home, SaveOptions{StateDir: filepath.Join(home, "link/state")})
	if got, want := entryNames(t, archive), []string{"link", "real/"}; !slices.Equal(got, want) {
		t.Errorf("saved %q, want %q", got, want)
	}
}

func TestSaveLinkedHome(t *testing.T) {
	home := t.TempDir()
	nodes{"real": {dir: nodes{"f": {data: "x"}}}, "home": {link: "real"}}.make(t, home)
	archive, _ := save(t, filepath.Join(home, "home"), SaveOptions{})
	if got, want := entryNames(t, archive), []string{"f"}; !slices.Equal(got, want) {
		t.Errorf("saved %q, want %q", got, want)
	}
}

func TestSaveEmptyHome(t *testing.T) {
	archive, stats := save(t, t.TempDir(), SaveOptions{})
	if len(archive) == 0 || stats.Entries != 0 {
		t.Errorf("Save wrote %d bytes, %+v", len(archive), stats)
	}
	if got := restore(t, archive, t.TempDir(), RestoreOptions{}); got != (RestoreStats{}) {
		t.Errorf("Restore counted %+v", got)
	}
}

func TestHomeUnavailable(t *testing.T) {
	dir := t.TempDir()
	nodes{"file": {data: "x"}}.make(t, dir)
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	for _, name := range []string{"missing", "file", "fifo"} {
		_, err := Save(t.Context(), io.Discard, filepath.Join(dir, name), SaveOptions{})
		wantCode(t, err, job.CodeHomeUnavailable)
		_, err = Restore(t.Context(), strings.NewReader(""), filepath.Join(dir, name), RestoreOptions{})
		wantCode(t, err, job.CodeHomeUnavailable)
	}
}

func wantCode(t *testing.T, err error, code job.Code) {
	t.Helper()
	e, ok := errors.AsType[*job.Error](err)
	if !ok || e.Code != code {
		t.Errorf("error %v, want code %s", err, code)
	}
}

// TestSaveUnreadable saves as a user to whom two entries are closed.
func TestSaveUnreadable(t *testing.T) {
	base := openDir(t)
	home := filepath.Join(base, "home")
	nodes{
		"closed":  {dir: nodes{"in": {data: "x"}}, mode: 0o000 | unix.S_IFDIR},
		"private": {data: "x", mode: 0o000 | unix.S_IFREG},
		"open":    {data: "x"},
	}.make(t, home)
	giveAway(t, base)
	var archive bytes.Buffer
	log := asNobody(t, "save", home, nil, &archive)
	if got, want := entryNames(t, archive.Bytes()), []string{"closed/", "open"}; !slices.Equal(got, want) {
		t.Errorf("saved %q, want %q", got, want)
	}
	if !strings.Contains(log, "Skipped:2 ") {
		t.Errorf("counts are %s, want 2 skipped", log)
	}
}

// failAfter is a writer that takes some bytes.
type failAfter struct{ n int }

var errPeerGone = &os.PathError{Op: "write", Path: "peer", Err: unix.EINVAL}

func (w *failAfter) Write(p []byte) (int, error) {
	if w.n -= len(p); w.n < 0 {
		return 0, errPeerGone
	}
	return len(p), nil
}

// TestSaveWriterFails gives an error that would be skipped if it were an entry's.
func TestSaveWriterFails(t *testing.T) {
	noLeaks(t)
	home := t.TempDir()
	fillRandom(t, home, 12)
	for _, n := range []int{0, 1000, 5 << 20} {
		_, err := Save(t.Context(), &failAfter{n}, home, SaveOptions{})
		wantCode(t, err, job.CodeSnapshotFailed)
		if !errors.Is(err, unix.EINVAL) {
			t.Errorf("after %d bytes: error %v, want the writer's", n, err)
		}
	}
}

// fillRandom makes files of 1 MiB that do not compress.
func fillRandom(t *testing.T, dir string, n int) {
	t.Helper()
	for i := range n {
		write(t, filepath.Join(dir, string(rune('a'+i))), randomText(1<<20, uint64(i)))
	}
}

// cancelAt ends the context of a save from within, at the first byte.
type cancelAt struct {
	cancel context.CancelCauseFunc
	wrote  int
}

func (w *cancelAt) Write(p []byte) (int, error) {
	w.cancel(context.DeadlineExceeded)
	w.wrote += len(p)
	return len(p), nil
}

// TestSaveDeadline ends inside one large file, and sends nothing from then on.
func TestSaveDeadline(t *testing.T) {
	noLeaks(t)
	home := t.TempDir()
	nodes{"huge": {size: 1 << 40}}.make(t, home)
	ctx, cancel := context.WithCancelCause(t.Context())
	w := &cancelAt{cancel: cancel}
	_, err := Save(ctx, w, home, SaveOptions{})
	wantCode(t, err, job.CodeSnapshotFailed)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline", err)
	}
	if w.wrote > 1<<20 {
		t.Errorf("%d bytes were written", w.wrote)
	}
}

// TestSaveFailsBeforeFirstByte leaves the writer untouched, so that a server
// can still answer with an error.
func TestSaveFailsBeforeFirstByte(t *testing.T) {
	home := t.TempDir()
	everything.make(t, home)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var b bytes.Buffer
	_, err := Save(ctx, &b, home, SaveOptions{})
	wantCode(t, err, job.CodeSnapshotFailed)
	if b.Len() > 0 {
		t.Errorf("%d bytes were written", b.Len())
	}
}
