package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shellctl/pkg/config"
	"shellctl/pkg/job"
)

// The test binary becomes another process when this names what to do.
const envHelper = "CONTROL_TEST_HELPER"

func TestMain(m *testing.M) {
	path := os.Getenv("CONTROL_TEST_PATH")
	var err error
	switch os.Getenv(envHelper) {
	case "":
		os.Exit(m.Run())
	case "lock": // hold the lock until killed
		if _, err = AcquireLock(path); err == nil {
			fmt.Println("held")
			select {}
		}
	case "stranger": // connect, without being the server
		var c net.Conn
		if c, err = net.Dial("unix", path); err == nil {
			fmt.Println("connected")
			if _, err = c.Read(make([]byte, 1)); err == io.EOF || err != nil && strings.Contains(err.Error(), "reset") {
				fmt.Println("turned away")
				os.Exit(0)
			}
		}
	case "runner": // listen, and answer the server's hello
		err = beRunner(path)
	case "inherit":
		err = beInheritor()
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func beRunner(path string) error {
	l, err := Listen(path, os.Getenv("CONTROL_TEST_LOCK"))
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		_ = c.Send(Message{Kind: KindHello, Version: Version, Size: 42}) // the test may have hung up
	}
}

func beInheritor() error {
	c, err := Inherited()
	if err != nil {
		return err
	}
	m, err := c.Receive()
	if err != nil {
		return err
	}
	m.Text = "seen"
	return c.Send(m)
}

// helper starts this program as another process and waits for its first line.
func helper(t *testing.T, what, path string, env ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(append(os.Environ(), envHelper+"="+what, "CONTROL_TEST_PATH="+path, "GORACE=atexit_sleep_ms=0"), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("the process for %s says nothing", what)
	}
	return cmd, lines
}

// frames returns what Send writes for messages.
func frames(t testing.TB, ms ...Message) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	var out []byte
	var wg sync.WaitGroup
	wg.Go(func() { out, _ = io.ReadAll(theirs) }) // ends when ours is closed
	c := NewConn(ours)
	for _, m := range ms {
		if err := c.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	ours.Close()
	wg.Wait()
	return out
}

// from returns a connection on which b arrives in pieces.
func from(b []byte, pieces ...int) *Conn {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		for _, n := range pieces {
			if _, err := theirs.Write(b[:n]); err != nil {
				return
			}
			b = b[n:]
		}
		_, _ = theirs.Write(b) // the reader may have had enough
	}()
	return NewConn(ours)
}

func frame(kind byte, body string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	return append(append(b, kind), body...)
}

var code = 137

var messages = []Message{
	{Kind: KindHello, Version: 1, Running: true, Drain: true, Size: 1 << 40},
	{Kind: KindStart, Start: &Start{
		ID: "0123456789abcdef", Mode: job.ModeStdio, Dir: "/d", StateDir: "/s", Control: "/c", ServerLock: "/l", Cwd: "/w é\n",
		Env: [][]byte{[]byte("A=\xff\x01\n"), []byte("B="), []byte("C=é")}, Terminal: job.Terminal{Cols: 1, Rows: 4096},
		Settings: config.Runner{DrainGrace: time.Second, MaxOutputBytes: 1 << 28}, BusyTimeout: 5 * time.Second,
	}},
	{Kind: KindStarted},
	{Kind: KindInput, ID: 1<<64 - 1, Data: []byte("\x00\x03\xff\n"), Limit: time.Minute},
	{Kind: KindInputDone, ID: 3, Written: 2, Error: job.CodeInputBlocked, Text: "why"},
	{Kind: KindTerminate, Limit: 10 * time.Second},
	{Kind: KindResize, Terminal: job.Terminal{Cols: 80, Rows: 24}},
	{Kind: KindExited, Exit: &job.Exit{Status: job.StatusExited, Code: &code, Reason: "signal:SIGKILL", EndedAt: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}},
	{Kind: KindRecorded},
	{Kind: KindDraining},
	{Kind: KindSize, Size: 1},
}

func wantMessages(t *testing.T, c *Conn, want ...Message) {
	t.Helper()
	for _, w := range want {
		got, err := c.Receive()
		if err != nil || !reflect.DeepEqual(got, w) {
			t.Fatalf("Receive\n got %+v, %v\nwant %+v", got, err, w)
		}
	}
	if m, err := c.Receive(); err != io.EOF {
		t.Errorf("at the end: %+v, %v", m, err)
	}
}

func TestMessagesAtEverySplit(t *testing.T) {
	b := frames(t, messages...)
	for at := range len(b) + 1 {
		c := from(b, at)
		wantMessages(t, c, messages...)
		c.Close()
	}
	ones := make([]int, len(b))
	for i := range ones {
		ones[i] = 1
	}
	wantMessages(t, from(b, ones...), messages...)
}

// A stream that ends inside of a frame is not a clean end.
func TestCutFrames(t *testing.T) {
	b := frames(t, messages[0], messages[4])
	first := len(frames(t, messages[0]))
	for at := range len(b) {
		c := from(b[:at])
		var err error
		n := 0
		for err == nil {
			if _, err = c.Receive(); err == nil {
				n++
			}
		}
		clean := at == 0 || at == first
		if (err == io.EOF) != clean || !clean && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d of %d: %d messages, then %v", at, len(b), n, err)
		}
	}
}

// Messages of a newer peer are no error: what is not known is left out.
func TestUnknownKindsAndFields(t *testing.T) {
	b := append(frame(200, `{"what":[1,{}],"size":5}`), frame(byte(KindSize), `{"size":7,"new":{"x":null},"exit":null}`)...)
	b = append(b, frame(byte(KindStarted), `{}`)...)
	wantMessages(t, from(b), Message{Kind: 200, Size: 5}, Message{Kind: KindSize, Size: 7}, Message{Kind: KindStarted})
}

func TestBadFrames(t *testing.T) {
	for name, b := range map[string][]byte{
		"oversized": append([]byte{0xff, 0xff, 0xff, 0xff, 1}, "{}"...),
		"one more":  append(binary.LittleEndian.AppendUint32(nil, maxFrame+1), 1),
		"empty":     frame(byte(KindHello), ""),
		"no JSON":   frame(byte(KindHello), "{"),
		"an array":  frame(byte(KindHello), "[]"),
		"a type":    frame(byte(KindSize), `{"size":"1"}`),
	} {
		if m, err := from(b).Receive(); err == nil || err == io.EOF {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

func TestLargeMessage(t *testing.T) {
	env := bytes.Repeat([]byte("x"), 8<<20)
	m := Message{Kind: KindStart, Start: &Start{Env: [][]byte{env}}}
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		c := NewConn(theirs)
		for _, m := range []Message{m, messages[0]} {
			if err := c.Send(m); err != nil {
				t.Error(err)
			}
		}
		c.Close()
	}()
	c := NewConn(ours)
	wantMessages(t, c, m, messages[0])
	if cap(c.buf) > keepBuffer {
		t.Errorf("%d bytes stay in memory", cap(c.buf))
	}
}

// What was received must not change when the next message comes.
func TestMessagesDoNotShareMemory(t *testing.T) {
	a, b := Message{Kind: KindInput, Data: []byte("first")}, Message{Kind: KindInput, Data: []byte("other")}
	c := from(frames(t, a, b))
	got, err := c.Receive()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Receive(); err != nil || string(got.Data) != "first" {
		t.Errorf("%q, %v", got.Data, err)
	}
}

func TestConcurrentSends(t *testing.T) {
	ours, theirs := net.Pipe()
	c := NewConn(ours)
	const senders, each = 8, 50
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() {
			for k := range each {
				if err := c.Send(Message{Kind: KindInput, ID: uint64(i*each + k), Data: bytes.Repeat([]byte{byte(i)}, 100*k)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	seen := map[uint64]bool{}
	in := NewConn(theirs)
	for range senders * each {
		m, err := in.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if seen[m.ID] || len(m.Data) != 100*(int(m.ID)%each) {
			t.Errorf("message %d of %d bytes, seen before: %v", m.ID, len(m.Data), seen[m.ID])
		}
		seen[m.ID] = true
	}
	wg.Wait()
	c.Close()
	if err := c.Send(messages[0]); err == nil {
		t.Error("Send on a closed connection succeeded")
	}
}

func FuzzReceive(f *testing.F) {
	for _, m := range messages {
		f.Add(frames(f, m), uint16(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, split uint16) {
		c := from(b, int(split)%(len(b)+1))
		defer c.Close()
		for {
			m, err := c.Receive()
			if err != nil {
				return
			}
			// What was understood can be said again.
			again, err := from(frames(t, m)).Receive()
			if err != nil || !reflect.DeepEqual(again, m) {
				t.Fatalf("%+v came back as %+v, %v", m, again, err)
			}
		}
	})
}

func TestPairAndInherited(t *testing.T) {
	c, theirs, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), envHelper+"=inherit")
	cmd.ExtraFiles = []*os.File{theirs} // the first is descriptor 3
	cmd.Stderr = io.Discard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	if err := c.Send(messages[1]); err != nil {
		t.Fatal(err)
	}
	want := messages[1]
	want.Text = "seen"
	wantMessages(t, c, want) // and the end, when the process is gone
	_ = cmd.Wait()           // helpers that return exit with 1
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if _, err := LockHolder(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("LockHolder of no file: %v", err)
	}
	cmd, _ := helper(t, "lock", path)
	pid := cmd.Process.Pid
	_, err := AcquireLock(path)
	var held *HeldError
	if !errors.As(err, &held) || held.PID != pid || !strings.Contains(err.Error(), strconv.Itoa(pid)) {
		t.Errorf("AcquireLock of a held lock: %v, want that process %d has it", err, pid)
	}
	if got, err := LockHolder(path); got != pid || err != nil {
		t.Errorf("LockHolder = %d, %v, want %d", got, err, pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // by the signal
	if got, err := LockHolder(path); got != 0 || err != nil {
		t.Errorf("LockHolder of a free lock = %d, %v", got, err)
	}
	l, err := AcquireLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	helper(t, "lock", path) // it says that it has it
	if _, err := AcquireLock(filepath.Join(path, "x")); err == nil {
		t.Error("a lock in no directory was taken")
	}
}

// longDir is deeper than what a socket address holds.
func longDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 100), strings.Repeat("é", 60))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestListenerAdmitsOnlyTheServer(t *testing.T) {
	dir := t.TempDir()
	lock, path := filepath.Join(dir, "lock"), filepath.Join(dir, "sock")
	server, err := AcquireLock(lock)
	if err != nil {
		t.Fatal(err)
	}
	runner, _ := helper(t, "runner", path, "CONTROL_TEST_LOCK="+lock)
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	_, lines := helper(t, "stranger", path)
	if !lines.Scan() || lines.Text() != "turned away" {
		t.Errorf("another process of the same user hears %q", lines.Text())
	}
	c, err := Dial(t.Context(), path, runner.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if m, err := c.Receive(); err != nil || m.Kind != KindHello || m.Size != 42 {
		t.Errorf("the server hears %+v, %v", m, err)
	}
	if err := server.Release(); err != nil {
		t.Fatal(err)
	}
	c, err = Dial(t.Context(), path, runner.Process.Pid) // no server any more
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if m, err := c.Receive(); err == nil {
		t.Errorf("without the lock: %+v", m)
	}
}

func TestDialRefusesAnotherProcess(t *testing.T) {
	dir := longDir(t)
	lock, path := filepath.Join(dir, "lock"), filepath.Join(dir, "sock")
	if _, err := AcquireLock(lock); err != nil {
		t.Fatal(err)
	}
	runner, _ := helper(t, "runner", path, "CONTROL_TEST_LOCK="+lock)
	pid := runner.Process.Pid
	if c, err := Dial(t.Context(), path, pid+1); err == nil || !strings.Contains(err.Error(), strconv.Itoa(pid)) {
		t.Errorf("Dial = %v, %v", c, err)
	}
	c, err := Dial(t.Context(), path, pid)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if m, err := c.Receive(); err != nil || m.Size != 42 {
		t.Errorf("%+v, %v", m, err)
	}
	if c, err := Dial(t.Context(), filepath.Join(dir, "none"), pid); err == nil {
		t.Errorf("Dial of no socket = %v", c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := Dial(ctx, path, pid); !errors.Is(err, context.Canceled) {
		t.Errorf("Dial of an ended context = %v, %v", c, err)
	}
}

func TestListenerClose(t *testing.T) {
	for _, dir := range []string{t.TempDir(), longDir(t)} {
		path := filepath.Join(dir, "sock")
		l, err := Listen(path, filepath.Join(dir, "lock"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Listen(path, filepath.Join(dir, "lock")); err == nil {
			t.Error("two listen on one path")
		}
		accepted := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			accepted <- err
		}()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-accepted; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept = %v", err)
		}
		if c, err := Dial(t.Context(), path, os.Getpid()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("Dial of a closed socket = %v, %v", c, err)
		}
	}
	if _, err := Listen(filepath.Join(longDir(t), "none", "sock"), ""); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Listen in no directory = %v", err)
	}
}
