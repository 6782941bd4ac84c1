package snapshot

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"shellctl/pkg/job"
)

// item is an entry of an archive written by hand.
type item struct {
	typ  byte // tar.TypeReg if 0
	name string
	link string
	data string
	mode int64
	pax  map[string]string
}

func dirItem(name string) item        { return item{typ: tar.TypeDir, name: name, mode: 0o755} }
func fileItem(name, data string) item { return item{name: name, data: data} }
func linkItem(name, to string) item   { return item{typ: tar.TypeSymlink, name: name, link: to} }
func hardItem(name, to string) item   { return item{typ: tar.TypeLink, name: name, link: to} }

// tarOf returns a tar stream of the items.
func tarOf(t testing.TB, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range items {
		h := &tar.Header{Typeflag: i.typ, Name: i.name, Linkname: i.link, Size: int64(len(i.data)), Mode: i.mode, PAXRecords: i.pax}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 && h.Typeflag != tar.TypeXGlobalHeader {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatalf("entry %q: %v", i.name, err)
		}
		if _, err := io.WriteString(w, i.data); err != nil {
			t.Fatalf("entry %q: %v", i.name, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pack compresses bytes into a frame.
func pack(t testing.TB, data []byte, opts ...zstd.EOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, opts...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// stage is a home with a neighbour that must not change.
type stage struct {
	base, home string
	before     map[string]state
}

func newStage(t *testing.T, tree nodes) *stage {
	t.Helper()
	s := &stage{base: t.TempDir()}
	s.home = filepath.Join(s.base, "home")
	nodes{"outside": {dir: nodes{"victim": {data: "precious"}, "dir": {dir: nodes{}}}}}.make(t, s.base)
	s.before = readTree(t, s.base)
	tree.make(t, s.home)
	return s
}

// untouched checks that nothing outside the home changed.
func (s *stage) untouched(t *testing.T) {
	t.Helper()
	now := readTree(t, s.base)
	maps.DeleteFunc(now, func(p string, _ state) bool { return p == "home" || strings.HasPrefix(p, "home/") })
	diffTrees(t, now, s.before)
}

// noTemps checks that no temporary file is left in the home.
func (s *stage) noTemps(t *testing.T) {
	t.Helper()
	for p := range readTree(t, s.home) {
		if strings.Contains(p, ".shellctl-restore-") {
			t.Errorf("%q is left", p)
		}
	}
}

func (s *stage) content(t *testing.T, name string) string {
	t.Helper()
	fi, err := os.Lstat(filepath.Join(s.home, name))
	must(t, err)
	if !fi.Mode().IsRegular() {
		t.Fatalf("%q is %v", name, fi.Mode())
	}
	if fi.Mode().Perm()&0o400 == 0 {
		return ""
	}
	data, err := os.ReadFile(filepath.Join(s.home, name))
	must(t, err)
	return string(data)
}

// hostile is the corpus: each archive must be refused, with a part of the
// message, and leave everything outside the home alone.
var hostile = []struct {
	name  string
	home  nodes
	items []item
	text  string
}{
	{"absolute", nil, []item{fileItem("/etc/evil", "x")}, `absolute entry name "/etc/evil"`},
	{"dot dot", nil, []item{fileItem("../evil", "x")}, `"../evil"`},
	{"inner dot dot", nil, []item{fileItem("a/../../evil", "x")}, `"a/../../evil"`},
	{"only dot dot", nil, []item{dirItem("..")}, `".."`},
	{"device", nil, []item{{typ: tar.TypeChar, name: "dev"}}, `"dev"`},
	{"fifo", nil, []item{{typ: tar.TypeFifo, name: "ff"}}, `"ff"`},
	{"contiguous", nil, []item{{typ: tar.TypeCont, name: "cc"}}, `"cc"`},
	{"write through link", nil, []item{linkItem("l", "../outside"), fileItem("l/victim", "x")}, `"l/"`},
	{"write through absolute link", nil, []item{linkItem("l", "/tmp"), fileItem("l/x", "x")}, `"l/"`},
	{"mkdir through link", nil, []item{linkItem("l", "../outside"), dirItem("l/new")}, `"l/"`},
	{"link through link", nil, []item{linkItem("l", "../outside"), linkItem("l/new", "x")}, `"l/"`},
	{"two links", nil, []item{linkItem("a", "b/.."), linkItem("b", ".."), fileItem("a/outside/victim", "x")}, `"a/outside/"`},
	{"link in depth", nil, []item{dirItem("d"), linkItem("d/l", "../../outside"), fileItem("d/l/victim", "x")}, `"d/l/"`},
	{"link loop", nil, []item{linkItem("a", "b"), linkItem("b", "a"), fileItem("a/x", "x")}, `"a/"`},
	{"existing link", nodes{"l": {link: "../outside"}}, []item{fileItem("l/victim", "x")}, `"l/"`},
	{"hard link to outside", nil, []item{hardItem("h", "../outside/victim")}, `"../outside/victim"`},
	{"hard link to absolute", nil, []item{hardItem("h", "/etc/passwd")}, `"/etc/passwd"`},
	{"hard link through link", nil, []item{linkItem("l", "../outside"), hardItem("h", "l/victim")}, `"l/"`},
	{"hard link to nothing", nil, []item{hardItem("h", "nope")}, `"nope"`},
	{"hard link to nothing in nothing", nil, []item{hardItem("h", "no/pe")}, `"no/pe"`},
	{"hard link to directory", nil, []item{dirItem("d"), hardItem("h", "d")}, `"d"`},
	{"hard link without target", nil, []item{hardItem("h", "")}, `"h"`},
	{"state", nil, []item{fileItem(".local/share/shellctl/db", "x")}, `".local/share/shellctl/db"`},
	{"state itself", nil, []item{linkItem(".local/share/shellctl", "/tmp")}, `".local/share/shellctl"`},
	{"state with detours", nil, []item{fileItem("./.local/x/../share//shellctl/db", "x")}, `".local/share/shellctl/db"`},
	{"state through link", nil, []item{dirItem(".local/share"), linkItem("l", ".local/share"), fileItem("l/shellctl/db", "x")}, "state directory"},
	{"state in use", nil, []item{fileItem("st/ate/db", "x")}, `"st/ate/db"`},
	{"state in use through link", nil, []item{linkItem("l", "st/ate"), fileItem("l/db", "x")}, "state directory"},
	{"hard link to state", nil, []item{hardItem("h", "st/ate/db")}, "state directory"},
	{"sparse", nil, []item{{name: "s", pax: map[string]string{"GNU.sparse.realsize": "9"}}}, ""},
}

func TestHostileArchives(t *testing.T) {
	for _, tt := range hostile {
		t.Run(tt.name, func(t *testing.T) {
			tree := nodes{"st": {dir: nodes{"ate": {dir: nodes{"db": {data: "live"}}}}}}
			maps.Copy(tree, tt.home)
			s := newStage(t, tree)
			items := tt.items
			if tt.name == "sparse" {
				items = nil // the tar library does not write one
			}
			data := tarOf(t, items...)
			if tt.name == "sparse" {
				data = gnuSparse()
			}
			opt := RestoreOptions{StateDir: filepath.Join(s.home, "st/ate")}
			_, err := Restore(t.Context(), bytes.NewReader(pack(t, data)), s.home, opt)
			wantCode(t, err, job.CodeArchiveMalformed)
			if err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %q does not say %s", err, tt.text)
			}
			s.untouched(t)
			s.noTemps(t)
			if got := s.content(t, "st/ate/db"); got != "live" {
				t.Errorf("state is %q", got)
			}
			if _, err := os.Lstat(filepath.Join(s.home, stateDir)); err == nil {
				t.Error("the usual state directory was made")
			}
		})
	}
}

// gnuSparse is a header in the old format of GNU tar for sparse files.
func gnuSparse() []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	_ = w.WriteHeader(&tar.Header{Name: "s", Mode: 0o644, Format: tar.FormatGNU})
	_ = w.Close()
	block := b.Bytes()
	block[156] = tar.TypeGNUSparse
	copy(block[148:], "        ")
	sum := 0
	for _, c := range block[:tarBlock] {
		sum += int(c)
	}
	for i := range 6 {
		block[153-i] = byte('0' + sum>>(3*i)&7)
	}
	block[154], block[155] = 0, ' '
	return block
}

// TestBrokenArchives gives bytes that are no archive.
func TestBrokenArchives(t *testing.T) {
	noLeaks(t)
	good := tarOf(t, dirItem("d"), fileItem("d/f", strings.Repeat("content ", 10000)), fileItem("g", "x"))
	packed := pack(t, good)
	tests := map[string][]byte{
		"garbage":            []byte("garbage"),
		"gzip":               {0x1f, 0x8b, 8, 0, 0, 0, 0, 0},
		"plain tar":          good,
		"truncated":          packed[:len(packed)/2],
		"one byte short":     packed[:len(packed)-1],
		"garbage in a frame": pack(t, []byte(strings.Repeat("garbage", 1000))),
		"no end":             pack(t, good[:len(good)-1024]),
		"end in a header":    pack(t, good[:700]),
		"end in content":     pack(t, good[:3000]),
		"trailing bytes":     append(bytes.Clone(packed), "more"...),
		"trailing archive":   append(bytes.Clone(packed), packed...),
		"trailing tar":       pack(t, append(bytes.Clone(good), good...)),
		"trailing byte":      pack(t, append(bytes.Clone(good), 1)),
		"padding":            pack(t, append(bytes.Clone(good), make([]byte, 20<<20)...)),
		"window":             pack(t, make([]byte, 2<<20), zstd.WithWindowSize(128<<20), zstd.WithEncoderLevel(zstd.SpeedFastest)),
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Restore(t.Context(), bytes.NewReader(data), t.TempDir(), RestoreOptions{})
			wantCode(t, err, job.CodeArchiveMalformed)
		})
	}
}

func TestAcceptedArchives(t *testing.T) {
	tests := map[string]struct {
		data []byte
		want RestoreStats
	}{
		"empty body":  {nil, RestoreStats{}},
		"empty frame": {pack(t, nil, zstd.WithZeroFrames(true)), RestoreStats{}},
		"no entries":  {pack(t, tarOf(t)), RestoreStats{}},
		"home itself": {pack(t, tarOf(t, dirItem("./"))), RestoreStats{}},
		"dot slash":   {pack(t, tarOf(t, fileItem("./f", "x"))), RestoreStats{1, 1}},
		"inner dots":  {pack(t, tarOf(t, fileItem("a/../f", "x"))), RestoreStats{1, 1}},
		"parents":     {pack(t, tarOf(t, fileItem("a/b/f", "abc"))), RestoreStats{1, 3}},
		"global header": {pack(t, tarOf(t,
			item{typ: tar.TypeXGlobalHeader, pax: map[string]string{"comment": "c0ffee"}},
			fileItem("f", "x"))), RestoreStats{1, 1}},
		"record of GNU tar": {pack(t, append(tarOf(t, fileItem("f", "x")), make([]byte, 10<<10)...)), RestoreStats{1, 1}},
		"through own link":  {pack(t, tarOf(t, dirItem("lib"), linkItem("lib64", "./lib"), fileItem("lib64/f", "x"))), RestoreStats{3, 1}},
		"link up inside":    {pack(t, tarOf(t, dirItem("a"), dirItem("b"), linkItem("b/l", "../a"), fileItem("b/l/f", "x"))), RestoreStats{4, 1}},
		"hard link":         {pack(t, tarOf(t, fileItem("a/f", "x"), hardItem("b/g", "a/f"))), RestoreStats{2, 1}},
		"hard link to link": {pack(t, tarOf(t, linkItem("l", "/etc/passwd"), hardItem("m", "l"))), RestoreStats{2, 0}},
		"hard link to self": {pack(t, tarOf(t, fileItem("f", "x"), hardItem("f", "f"))), RestoreStats{2, 1}},
		"name twice":        {pack(t, tarOf(t, fileItem("f", "x"), fileItem("f", "yy"))), RestoreStats{2, 3}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			for range 2 {
				if got := restore(t, tt.data, s.home, RestoreOptions{}); got != tt.want {
					t.Errorf("counted %+v, want %+v", got, tt.want)
				}
			}
			s.untouched(t)
			s.noTemps(t)
		})
	}
}

// TestReplace restores a file over everything that a name can be.
func TestReplace(t *testing.T) {
	noLeaks(t)
	s := newStage(t, nodes{
		"absolute": {link: "/etc/passwd"}, "leaves": {link: "../outside/victim"}, "inside": {link: "target"},
		"target": {data: "target"}, "readonly": {data: "old", mode: 0o444},
		"twin1": {data: "twin"}, "twin2": {hard: "twin1"}, "dirlink": {link: "../outside/dir"},
		"linkover": {data: "old"}, "emptydir": {dir: nodes{}}, "hardover": {data: "old"},
	})
	must(t, unix.Mkfifo(filepath.Join(s.home, "fifo"), 0o644))
	must(t, unix.Mkfifo(filepath.Join(s.home, "fifodir"), 0o644))
	var items []item
	for _, name := range []string{"absolute", "leaves", "inside", "readonly", "twin1", "fifo"} {
		items = append(items, fileItem(name, "new"))
	}
	items = append(items,
		dirItem("fifodir"), fileItem("fifodir/f", "new"),
		dirItem("dirlink"), fileItem("dirlink/f", "new"),
		linkItem("linkover", "target"), linkItem("emptydir", "target"), hardItem("hardover", "twin1"))
	restore(t, pack(t, tarOf(t, items...)), s.home, RestoreOptions{})
	s.untouched(t)
	s.noTemps(t)
	for _, name := range []string{"absolute", "leaves", "inside", "readonly", "twin1", "fifo", "fifodir/f", "dirlink/f", "hardover"} {
		if got := s.content(t, name); got != "new" {
			t.Errorf("%q holds %q", name, got)
		}
	}
	if got := s.content(t, "twin2"); got != "twin" {
		t.Errorf("the other name of a replaced file holds %q", got)
	}
	if got := s.content(t, "target"); got != "target" {
		t.Errorf("the target of a replaced link holds %q", got)
	}
	for _, name := range []string{"linkover", "emptydir"} {
		if got, _ := os.Readlink(filepath.Join(s.home, name)); got != "target" {
			t.Errorf("%q leads to %q", name, got)
		}
	}
}

// TestConflicts has homes that stand against an archive which is fine.
func TestConflicts(t *testing.T) {
	long := strings.Repeat("q", 300)
	tests := []struct {
		home nodes
		item item
		want unix.Errno
	}{
		{nodes{"d": {dir: nodes{}}}, fileItem("d", "x"), unix.EISDIR},
		{nodes{"f": {data: "x"}}, dirItem("f"), unix.EEXIST},
		{nodes{"f": {data: "x"}}, fileItem("f/g", "x"), unix.ENOTDIR},
		{nodes{"d": {dir: nodes{"x": {}}}}, linkItem("d", "x"), unix.ENOTEMPTY},
		{nil, fileItem(long, "x"), unix.ENAMETOOLONG},
	}
	for _, tt := range tests {
		s := newStage(t, tt.home)
		_, err := Restore(t.Context(), bytes.NewReader(pack(t, tarOf(t, tt.item))), s.home, RestoreOptions{})
		wantCode(t, err, job.CodeRestoreFailed)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.item.name) {
			t.Errorf("restore %q: %v, want %v", tt.item.name, err, tt.want)
		}
		s.noTemps(t)
	}
}

func TestRestoreDropsSpecialBits(t *testing.T) {
	s := newStage(t, nil)
	restore(t, pack(t, tarOf(t,
		item{name: "f", mode: 0o6755}, item{typ: tar.TypeDir, name: "d", mode: 0o3777})), s.home, RestoreOptions{})
	for name, want := range map[string]uint32{"f": 0o755, "d": 0o777} {
		var st unix.Stat_t
		must(t, unix.Lstat(filepath.Join(s.home, name), &st))
		if st.Mode&0o7777 != want {
			t.Errorf("%q has mode %o, want %o", name, st.Mode&0o7777, want)
		}
	}
}

func TestRestoreLimits(t *testing.T) {
	data := pack(t, tarOf(t, fileItem("a", "xx"), fileItem("b", "xx")))
	for _, tt := range []struct {
		opt  RestoreOptions
		fail bool
	}{
		{RestoreOptions{MaxBytes: 4, MaxEntries: 2}, false},
		{RestoreOptions{MaxBytes: 3}, true},
		{RestoreOptions{MaxEntries: 1}, true},
	} {
		s := newStage(t, nil)
		_, err := Restore(t.Context(), bytes.NewReader(data), s.home, tt.opt)
		if (err != nil) != tt.fail {
			t.Errorf("%+v: error %v", tt.opt, err)
		}
		if !tt.fail {
			continue
		}
		wantCode(t, err, job.CodeRestoreFailed)
		if _, err := os.Lstat(filepath.Join(s.home, "b")); err == nil {
			t.Errorf("%+v: the entry above the limit was written", tt.opt)
		}
	}
}

// TestRestoreFails stops in the middle of a file: no part of it stays, and the
// directory before it has its mode.
func TestRestoreFails(t *testing.T) {
	noLeaks(t)
	data := tarOf(t, item{typ: tar.TypeDir, name: "d", mode: 0o500}, fileItem("d/f", randomText(1<<20, 1)))
	for _, name := range []string{"fresh", "replace"} {
		s := newStage(t, nil)
		if name == "replace" {
			nodes{"d": {dir: nodes{"f": {data: "old"}}}}.make(t, s.home)
		}
		_, err := Restore(t.Context(), bytes.NewReader(pack(t, data[:len(data)/2])), s.home, RestoreOptions{})
		wantCode(t, err, job.CodeArchiveMalformed)
		s.noTemps(t)
		fi, err := os.Stat(filepath.Join(s.home, "d"))
		must(t, err)
		if fi.Mode().Perm() != 0o500 {
			t.Errorf("%s: directory has mode %v", name, fi.Mode())
		}
		got, err := os.ReadFile(filepath.Join(s.home, "d/f"))
		if name == "replace" && string(got) != "old" {
			t.Errorf("replaced file holds %q", got)
		}
		if name == "fresh" && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a part of the file stays: %v", err)
		}
	}
}

// TestRestoreReaderFails has a peer that goes away or comes to its deadline.
func TestRestoreReaderFails(t *testing.T) {
	noLeaks(t)
	packed := pack(t, tarOf(t, fileItem("f", randomText(1<<20, 1))))
	for _, cause := range []error{io.ErrUnexpectedEOF, os.ErrDeadlineExceeded} {
		r := io.MultiReader(bytes.NewReader(packed[:len(packed)/2]), errReader{cause})
		_, err := Restore(t.Context(), r, t.TempDir(), RestoreOptions{})
		wantCode(t, err, job.CodeRestoreFailed)
		if !errors.Is(err, cause) {
			t.Errorf("error %v, want %v", err, cause)
		}
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// TestRestoreCutAtFrame: the body is cut where a frame ends, or before the first
// one. The decoder takes that for the end of the archive; who sent it did not.
func TestRestoreCutAtFrame(t *testing.T) {
	noLeaks(t)
	whole := pack(t, tarOf(t, fileItem("a", "x")))
	for name, data := range map[string][]byte{"at once": nil, "in the magic": whole[:3], "after the archive": whole} {
		// As the body of a request does: the error comes once.
		r := io.MultiReader(bytes.NewReader(data), &failOnce{err: io.ErrUnexpectedEOF})
		_, err := Restore(t.Context(), r, t.TempDir(), RestoreOptions{})
		wantCode(t, err, job.CodeRestoreFailed)
		if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "read archive: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// failOnce is a reader of one error and then an end.
type failOnce struct{ err error }

func (f *failOnce) Read([]byte) (int, error) {
	err := cmp.Or(f.err, io.EOF)
	f.err = nil
	return 0, err
}

// TestRestoreDeadline ends inside one large file.
func TestRestoreDeadline(t *testing.T) {
	noLeaks(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	packed := pack(t, tarOf(t, fileItem("f", randomText(8<<20, 1))))
	r := io.MultiReader(bytes.NewReader(packed[:4<<20]), cancelReader{cancel}, bytes.NewReader(packed[4<<20:]))
	s := newStage(t, nil)
	_, err := Restore(ctx, r, s.home, RestoreOptions{})
	wantCode(t, err, job.CodeRestoreFailed)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline", err)
	}
	if n := len(readTree(t, s.home)); n != 0 {
		t.Errorf("%d entries stay", n)
	}
}

type cancelReader struct{ cancel context.CancelCauseFunc }

func (r cancelReader) Read([]byte) (int, error) {
	r.cancel(context.DeadlineExceeded)
	return 0, io.EOF
}
