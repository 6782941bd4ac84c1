package store

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shellctl/pkg/job"
)

// The test binary becomes another process of the record when this names what to do.
const envHelper = "STORE_TEST_HELPER"

func TestMain(m *testing.M) {
	helper, dir := os.Getenv(envHelper), os.Getenv("STORE_TEST_DIR")
	var err error
	switch helper {
	case "":
		os.Exit(m.Run())
	case "finish":
		err = finishAll(dir)
	case "write":
		err = writeForEver(dir)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func helper(t *testing.T, what, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), envHelper+"="+what, "STORE_TEST_DIR="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// logTo returns a logger and what it was told.
func logTo() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, nil)), &b
}

// mustOpen opens the record in dir and wants no warning.
func mustOpen(t testing.TB, dir string) *Store {
	t.Helper()
	log, said := logTo()
	s, err := Open(context.Background(), dir, log)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	if said.Len() > 0 {
		t.Errorf("Open warned: %s", said)
	}
	return s
}

func number(i int) job.ID { return job.ID(fmt.Sprintf("%016x", i)) }

func mustInsert(t testing.TB, s *Store, r Row) {
	t.Helper()
	if err := s.Insert(t.Context(), r); err != nil {
		t.Fatalf("Insert: %v", err)
	}
}

func running(id job.ID) Row {
	return Row{ID: id, Mode: job.ModePTY, Cwd: "/", Status: job.StatusRunning, Created: time.Unix(1_700_000_000, 0)}
}

func wantCode(t testing.TB, err error, code job.Code) {
	t.Helper()
	if e := (*job.Error)(nil); !errors.As(err, &e) || e.Code != code {
		t.Errorf("error %v, want one with code %s", err, code)
	}
}

func TestRoundTrip(t *testing.T) {
	zone := time.FixedZone("far", 5*3600)
	code := -7
	full := Row{
		ID: number(1), Mode: job.ModeStdio, Cwd: "/tmp/with ' quote \xff and é", Terminal: job.Terminal{Cols: 4096, Rows: 1},
		Status: job.StatusExited, ExitCode: &code, Reason: "exited", Message: "why",
		Created: time.Date(2026, 1, 2, 3, 4, 5, 999_999_999, zone), Started: time.Date(2026, 1, 2, 3, 4, 6, 0, zone),
		Ended:     time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC),
		RunnerPID: 1 << 22, RunnerStart: 1<<64 - 1, BootID: "boot", ControlPath: "/run/x.sock",
		RequestKey: "key", RequestHash: []byte{0, 1, 255},
	}
	least := Row{ID: number(2), Mode: job.ModePTY, Cwd: "", Status: job.StatusCreated, Created: time.Unix(0, 0)}
	dir := t.TempDir()
	s := mustOpen(t, dir)
	for _, r := range []Row{full, least} {
		mustInsert(t, s, r)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, dir)
	full.Created = time.Date(2026, 1, 1, 22, 4, 5, 0, time.UTC) // in whole seconds
	full.Started = time.Date(2026, 1, 1, 22, 4, 6, 0, time.UTC)
	least.Created = time.Unix(0, 0).UTC()
	for _, want := range []Row{full, least} {
		got, err := s.Get(t.Context(), want.ID)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Get(%s)\n got %+v, %v\nwant %+v", want.ID, got, err, want)
		}
	}
}

func TestStatePathsWithOddCharacters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b?c#d%41&é;'")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	mustInsert(t, mustOpen(t, dir), running(number(1)))
	if _, err := os.Stat(filepath.Join(dir, FileName)); err != nil {
		t.Error(err)
	}
}

func TestUnknownJob(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	_, err := s.Get(t.Context(), number(1))
	wantCode(t, err, job.CodeJobNotFound)
	won, err := s.Finish(t.Context(), number(1), job.Exit{Status: job.StatusExited})
	wantCode(t, err, job.CodeJobNotFound)
	if won {
		t.Error("Finish reports that it ended an unknown job")
	}
	_, err = s.ByKey(t.Context(), "nobody's")
	wantCode(t, err, job.CodeJobNotFound)
	if was, err := s.Delete(t.Context(), number(1)); was || err != nil {
		t.Errorf("Delete = %v, %v", was, err)
	}
}

// The first terminal state wins, whatever comes after it.
func TestFirstEndWins(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	live := []job.Status{job.StatusCreated, job.StatusStarting, job.StatusRunning}
	ends := []job.Status{job.StatusExited, job.StatusTerminated, job.StatusFailed, job.StatusLost}
	n := 0
	for _, from := range live {
		for _, first := range ends {
			for _, second := range ends {
				n++
				r := running(number(n))
				r.Status = from
				mustInsert(t, s, r)
				at, code := time.Unix(1_700_000_100, 0).UTC(), 42
				won, err := s.Finish(t.Context(), r.ID, job.Exit{Status: first, Code: &code, Reason: "one", Message: "first", EndedAt: at})
				if !won || err != nil {
					t.Fatalf("%s → %s: %v, %v", from, first, won, err)
				}
				won, err = s.Finish(t.Context(), r.ID, job.Exit{Status: second, Reason: "two", EndedAt: at.Add(time.Hour)})
				if won || err != nil {
					t.Fatalf("%s → %s → %s: %v, %v", from, first, second, won, err)
				}
				got, err := s.Get(t.Context(), r.ID)
				if err != nil || got.Status != first || got.ExitCode == nil || *got.ExitCode != 42 || got.Reason != "one" || got.Message != "first" || !got.Ended.Equal(at) {
					t.Errorf("%s → %s → %s: %+v, %v", from, first, second, got, err)
				}
			}
		}
	}
}

func TestManyRaceToFinish(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	mustInsert(t, s, running(number(1)))
	var wg sync.WaitGroup
	var wins, winner atomic.Int64
	gate := make(chan struct{})
	for i := range 50 {
		wg.Go(func() {
			<-gate
			won, err := s.Finish(t.Context(), number(1), job.Exit{Status: job.StatusExited, Code: &i, EndedAt: time.Now()})
			if err != nil {
				t.Error(err)
			}
			if won {
				wins.Add(1)
				winner.Store(int64(i))
			}
		})
	}
	close(gate)
	wg.Wait()
	r, err := s.Get(t.Context(), number(1))
	if err != nil || wins.Load() != 1 || r.ExitCode == nil || int64(*r.ExitCode) != winner.Load() {
		t.Errorf("%d won, the last was %d, the record says %v, %v", wins.Load(), winner.Load(), r.ExitCode, err)
	}
}

const raced = 50

// finishAll tries to end all jobs once its input is closed, and says how many it did.
func finishAll(dir string) error {
	s, err := OpenExisting(context.Background(), dir, DefaultBusyTimeout)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := os.Stdin.Read(make([]byte, 1)); err == nil {
		return errors.New("input of no use")
	}
	wins, pid := 0, os.Getpid()
	for i := range raced {
		won, err := s.Finish(context.Background(), number(i), job.Exit{Status: job.StatusExited, Code: &pid, EndedAt: time.Now()})
		if err != nil {
			return err
		}
		if won {
			wins++
		}
	}
	fmt.Println(wins)
	os.Exit(0)
	return nil
}

func TestProcessesRaceToFinish(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	for i := range raced {
		mustInsert(t, s, running(number(i)))
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var cmds [2]*exec.Cmd
	var outs [2]*bufio.Scanner
	for i := range cmds {
		cmds[i] = helper(t, "finish", dir)
		cmds[i].Stdin = r
		out, err := cmds[i].StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		outs[i] = bufio.NewScanner(out)
		if err := cmds[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, out := range outs {
		if !out.Scan() || out.Text() != "ready" {
			t.Fatal("a process did not start")
		}
	}
	w.Close() // go
	wins := map[int]int{}
	for i, out := range outs {
		out.Scan()
		n, err := strconv.Atoi(out.Text())
		if err != nil {
			t.Fatal(err)
		}
		wins[cmds[i].Process.Pid] = n
		if err := cmds[i].Wait(); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := s.List(t.Context(), job.StatusExited, raced+1)
	if err != nil || len(rows) != raced {
		t.Fatalf("%d jobs ended, %v", len(rows), err)
	}
	for _, r := range rows {
		wins[*r.ExitCode]--
	}
	for pid, n := range wins {
		if n != 0 {
			t.Errorf("process %d won %d more than the record says", pid, n)
		}
	}
}

// writeForEver writes jobs and their ends and says each time when it is done.
func writeForEver(dir string) error {
	s, err := Open(context.Background(), dir, slog.Default())
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		if err := s.Insert(context.Background(), running(number(i))); err != nil {
			return err
		}
		fmt.Println("insert", i)
		if _, err := s.Finish(context.Background(), number(i), job.Exit{Status: job.StatusExited, Code: &i, EndedAt: time.Now()}); err != nil {
			return err
		}
		fmt.Println("finish", i)
	}
}

// A killed server leaves a record that opens and holds all that it was told.
func TestKilledWhileWriting(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		sub := filepath.Join(dir, strconv.Itoa(round))
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := helper(t, "write", sub)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		inserted, finished := -1, -1
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			what, n, _ := strings.Cut(lines.Text(), " ")
			i, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			if what == "insert" {
				inserted = i
			} else {
				finished = i
			}
			if i == 60+round*17 { // far enough for checkpoints of the log
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil || inserted < 60 {
			t.Fatalf("the writer ended with %v after %d jobs", err, inserted)
		}
		s := mustOpen(t, sub)
		for i := range inserted + 1 {
			r, err := s.Get(t.Context(), number(i))
			if err != nil {
				t.Fatalf("job %d of %d: %v", i, inserted, err)
			}
			if i <= finished && (r.Status != job.StatusExited || r.ExitCode == nil || *r.ExitCode != i) {
				t.Errorf("job %d: its end is lost: %+v", i, r)
			}
		}
		mustInsert(t, s, running(number(1<<30)))
	}
}

func TestListAndLive(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	if rows, err := s.List(t.Context(), "", 10); err != nil || len(rows) != 0 {
		t.Errorf("empty list: %v, %v", rows, err)
	}
	for i := range 10 { // all in the same second: the order is that of insertion
		mustInsert(t, s, running(number(9-i)))
	}
	for _, i := range []int{3, 6} {
		if _, err := s.Finish(t.Context(), number(i), job.Exit{Status: job.StatusExited, EndedAt: time.Unix(1_700_000_100-int64(i), 0)}); err != nil {
			t.Fatal(err)
		}
	}
	if was, err := s.Delete(t.Context(), number(0)); !was || err != nil {
		t.Errorf("Delete = %v, %v", was, err)
	}
	mustInsert(t, s, running(number(16)))
	for _, c := range []struct {
		status job.Status
		limit  int
		want   string
	}{
		{"", 100, "16 1 2 3 4 5 6 7 8 9"},
		{"", 3, "16 1 2"},
		{job.StatusRunning, 100, "16 1 2 4 5 7 8 9"},
		{job.StatusRunning, 2, "16 1"},
		{job.StatusExited, 100, "3 6"},
		{job.StatusExited, 1, "3"},
		{job.StatusLost, 100, ""},
		{"bogus' OR 1=1 --", 100, ""},
	} {
		rows, err := s.List(t.Context(), c.status, c.limit)
		if got := ids(t, rows); err != nil || got != c.want {
			t.Errorf("List(%q, %d) = %s, %v, want %s", c.status, c.limit, got, err, c.want)
		}
	}
	rows, err := s.Live(t.Context())
	if err != nil || len(rows) != 8 {
		t.Errorf("Live = %s, %v", ids(t, rows), err)
	}
	ended, err := s.Ended(t.Context())
	want := []Ended{{number(6), time.Unix(1_700_000_094, 0).UTC()}, {number(3), time.Unix(1_700_000_097, 0).UTC()}}
	if err != nil || !reflect.DeepEqual(ended, want) {
		t.Errorf("Ended = %v, %v, want %v", ended, err, want)
	}
}

func ids(t testing.TB, rows []Row) string {
	t.Helper()
	var out []string
	for _, r := range rows {
		n, err := strconv.ParseUint(string(r.ID), 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strconv.FormatUint(n, 10))
	}
	return strings.Join(out, " ")
}

func TestIdsAndKeysAreUnique(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	one, two, three := running(number(1)), running(number(2)), running(number(3))
	one.RequestKey, one.RequestHash = "key", []byte("hash")
	mustInsert(t, s, one)
	mustInsert(t, s, two)
	mustInsert(t, s, three) // no key twice is no conflict
	if err := s.Insert(t.Context(), one); err == nil {
		t.Error("an id could be taken twice")
	}
	again := running(number(4))
	again.RequestKey = "key"
	if err := s.Insert(t.Context(), again); err == nil {
		t.Error("a key could be taken twice")
	}
	r, err := s.ByKey(t.Context(), "key")
	if err != nil || r.ID != one.ID || string(r.RequestHash) != "hash" {
		t.Errorf("ByKey = %+v, %v", r, err)
	}
	_, err = s.ByKey(t.Context(), "KEY")
	wantCode(t, err, job.CodeJobNotFound)
	_, err = s.ByKey(t.Context(), "")
	wantCode(t, err, job.CodeJobNotFound)
	if _, err := s.Delete(t.Context(), one.ID); err != nil {
		t.Fatal(err)
	}
	mustInsert(t, s, again)
}

// execSQL changes the database at path as another program would.
func execSQL(t testing.TB, path string, stmts ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range stmts {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// upstreamSchema is that of the program that ours replaces.
const upstreamSchema = `CREATE TABLE jobs (job_id TEXT PRIMARY KEY, script_path TEXT NOT NULL, output_path TEXT NOT NULL,
	cwd TEXT NOT NULL, terminal_cols INTEGER NOT NULL DEFAULT 200, terminal_rows INTEGER NOT NULL DEFAULT 50,
	status TEXT NOT NULL DEFAULT 'created', session_name TEXT NOT NULL, pane_target TEXT NOT NULL, exit_code INTEGER,
	reason TEXT, message TEXT, created_at TEXT NOT NULL, started_at TEXT, ended_at TEXT, updated_at TEXT NOT NULL)`

// spoiled returns the ways in which the file of the record can be of no use.
func spoiled() map[string]func(t *testing.T, path string) {
	ours := func(t *testing.T, path string) {
		s := mustOpen(t, filepath.Dir(path))
		for i := range 60 { // enough for several pages
			r := running(number(i))
			r.Cwd = "/" + strings.Repeat("x", 1000)
			mustInsert(t, s, r)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write := func(t *testing.T, path string, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return map[string]func(t *testing.T, path string){
		"text":             func(t *testing.T, path string) { write(t, path, []byte("hello\n")) },
		"long text":        func(t *testing.T, path string) { write(t, path, bytes.Repeat([]byte("hello\n"), 10000)) },
		"zeroes":           func(t *testing.T, path string) { write(t, path, make([]byte, 8192)) },
		"upstream":         func(t *testing.T, path string) { execSQL(t, path, "PRAGMA journal_mode=WAL", upstreamSchema) },
		"another program":  func(t *testing.T, path string) { execSQL(t, path, "PRAGMA application_id=7", "CREATE TABLE x (y)") },
		"another, no mark": func(t *testing.T, path string) { execSQL(t, path, "CREATE TABLE x (y)") },
		"newer schema": func(t *testing.T, path string) {
			ours(t, path)
			execSQL(t, path, fmt.Sprintf("PRAGMA user_version=%d", schemaVersion+1))
		},
		"truncated": func(t *testing.T, path string) {
			ours(t, path)
			if err := os.Truncate(path, 3*4096); err != nil {
				t.Fatal(err)
			}
		},
		"cut header": func(t *testing.T, path string) {
			ours(t, path)
			if err := os.Truncate(path, 50); err != nil {
				t.Fatal(err)
			}
		},
		"overwritten": func(t *testing.T, path string) {
			ours(t, path)
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt(bytes.Repeat([]byte{0xAA}, 20_000), 2*4096)
			}
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
		},
		"directory": func(t *testing.T, path string) {
			if err := os.MkdirAll(filepath.Join(path, "sub"), 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"fifo": func(t *testing.T, path string) {
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"dangling link": func(t *testing.T, path string) {
			if err := os.Symlink("/nonexistent/x", path); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// content returns the bytes of a regular file, of anything else none.
func content(path string) []byte {
	if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return b
}

var asideName = regexp.MustCompile(`^shellctl\.db\.\d{8}T\d{6}\.\d{3}Z$`)

func TestUnusableIsSetAside(t *testing.T) {
	for name, spoil := range spoiled() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, FileName)
			spoil(t, path)
			before := content(path)
			log, said := logTo()
			s, err := Open(t.Context(), dir, log)
			if err != nil {
				t.Fatalf("Open: %v", err)
			}
			defer s.Close()
			if !strings.Contains(said.String(), "level=WARN") || strings.Count(said.String(), "\n") != 1 {
				t.Errorf("it was said: %q", said)
			}
			mustInsert(t, s, running(number(1)))
			if rows, err := s.List(t.Context(), "", 10); err != nil || len(rows) != 1 {
				t.Errorf("the new record holds %s, %v", ids(t, rows), err)
			}
			aside := ""
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if asideName.MatchString(e.Name()) {
					aside = filepath.Join(dir, e.Name())
				}
			}
			if aside == "" || !strings.Contains(said.String(), aside) {
				t.Fatalf("set aside as %q among %v; it was said: %s", aside, entries, said)
			}
			if after := content(aside); !bytes.Equal(after, before) {
				t.Errorf("what was set aside was changed: %d bytes, %d before", len(after), len(before))
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			mustOpen(t, dir) // now without a warning
		})
	}
}

// What was not checkpointed yet goes with the database that is set aside.
func TestLogGoesWithItsDatabase(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, q := range []string{"PRAGMA journal_mode=WAL", upstreamSchema, "CREATE TABLE extra (x)"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	log, said := logTo()
	s, err := Open(t.Context(), dir, log) // while another program has it open
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if m, _ := filepath.Glob(path + ".*Z" + suffix); len(m) != 1 {
			t.Errorf("set aside with suffix %q: %v; it was said: %s", suffix, m, said)
		}
	}
}

// A server killed before it made the schema leaves an empty file.
func TestEmptyFileIsUsed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mustInsert(t, mustOpen(t, dir), running(number(1)))
}

// A failure that says nothing about the file is no reason to give the record up.
func TestGoodRecordIsNotSetAside(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	mustInsert(t, s, running(number(1)))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	log, said := logTo()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := Open(ctx, dir, log); err == nil {
		s.Close()
		t.Error("Open succeeded although the context has ended")
	}
	if said.Len() > 0 {
		t.Errorf("it was said: %s", said)
	}
	if _, err := mustOpen(t, dir).Get(t.Context(), number(1)); err != nil {
		t.Error(err)
	}
}

func TestFullDiskDoesNotCostTheRecord(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=256k"); err != nil {
		t.Fatalf("mount: %v", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	s := mustOpen(t, dir)
	mustInsert(t, s, running(number(1)))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	balloon := filepath.Join(dir, "balloon")
	if err := os.WriteFile(balloon, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk can not be filled: %v", err)
	}
	log, said := logTo()
	s, err := Open(t.Context(), dir, log)
	if err == nil {
		err = s.Insert(t.Context(), running(number(2)))
		s.Close()
	}
	if err == nil || said.Len() > 0 {
		t.Errorf("on a full disk: %v; it was said: %s", err, said)
	}
	if err := os.Remove(balloon); err != nil {
		t.Fatal(err)
	}
	if _, err := mustOpen(t, dir).Get(t.Context(), number(1)); err != nil {
		t.Error(err)
	}
}

func TestOpenExisting(t *testing.T) {
	dir := t.TempDir()
	if s, err := OpenExisting(t.Context(), dir, time.Second); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("OpenExisting of nothing = %v, %v", s, err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("it made %v", entries)
	}
	mustInsert(t, mustOpen(t, dir), running(number(1))) // and the server still has it open
	s, err := OpenExisting(t.Context(), dir, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if won, err := s.Finish(t.Context(), number(1), job.Exit{Status: job.StatusExited, EndedAt: time.Now()}); !won || err != nil {
		t.Errorf("Finish = %v, %v", won, err)
	}
}

func TestOpenExistingLeavesUnusableAlone(t *testing.T) {
	for name, spoil := range spoiled() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			spoil(t, filepath.Join(dir, FileName))
			if s, err := OpenExisting(t.Context(), dir, time.Second); err == nil {
				s.Close()
				t.Error("OpenExisting took it")
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 1 || entries[0].Name() != FileName {
				t.Errorf("there is %v, %v", entries, err)
			}
		})
	}
}

// A writer waits for another one for the time given, and says that it was busy.
func TestBusy(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	mustInsert(t, s, running(number(1)))
	other, err := OpenExisting(t.Context(), dir, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := s.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Finish(t.Context(), number(1), job.Exit{Status: job.StatusLost, EndedAt: time.Now()}); err == nil || !strings.Contains(err.Error(), "SQLITE_BUSY") {
		t.Errorf("Finish beside a writer: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if won, err := other.Finish(t.Context(), number(1), job.Exit{Status: job.StatusLost, EndedAt: time.Now()}); !won || err != nil {
		t.Errorf("Finish after it: %v, %v", won, err)
	}
}

func BenchmarkFinish(b *testing.B) {
	s := mustOpen(b, b.TempDir())
	for i := 0; b.Loop(); i++ {
		mustInsert(b, s, running(number(i)))
		if _, err := s.Finish(b.Context(), number(i), job.Exit{Status: job.StatusExited, EndedAt: time.Now()}); err != nil {
			b.Fatal(err)
		}
	}
}
