package applets_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"shellctl/pkg/client"
)

var bothModes = []string{"pty", "stdio"}

// seqBytes is what seq 1 200000 prints.
const seqBytes = 1288895

// TestCompleteAtDone: at the first done:true all of the output is readable.
func TestCompleteAtDone(t *testing.T) {
	s := startServer(t, serverOptions{})
	for _, mode := range bothModes {
		var wg sync.WaitGroup
		slots := make(chan struct{}, 50)
		for range 200 {
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				checkSeq(t, s, mode)
			})
		}
		wg.Wait()
	}
}

func checkSeq(t *testing.T, s *testServer, mode string) {
	ctx := context.Background()
	res, err := s.Run(ctx, client.RunRequest{Script: "seq 1 200000", Mode: mode, WaitRequest: client.WaitRequest{Timeout: 0.001, OutputLimit: 1}})
	for id := res.JobID; err == nil && !res.Done; {
		// An offset that is not written yet is refused at once, so look from the start.
		res, err = s.Wait(ctx, id, client.WaitRequest{Timeout: 120, OutputLimit: 512 << 10, IdleFlush: 100})
	}
	if err != nil {
		t.Errorf("%s: %v", mode, err)
		return
	}
	// The file itself, at once: nothing may be added after the end was told.
	b, err := os.ReadFile(res.OutputPath)
	if err != nil || len(b) != seqBytes || !bytes.HasSuffix(b, []byte("\n200000\n")) {
		t.Errorf("%s: %d bytes at the end, want %d; last %q (%v)", mode, len(b), seqBytes, tail(b), err)
	}
	wantExit(t, res, "exited", 0)
	if _, err := s.Delete(ctx, res.JobID, false, nil); err != nil {
		t.Errorf("delete: %v", err)
	}
}

func tail(b []byte) []byte { return b[max(0, len(b)-20):] }

func TestOutputWithoutNewline(t *testing.T) {
	s := startServer(t, serverOptions{})
	for _, mode := range bothModes {
		res := s.run(`head -c 300000 /dev/zero | tr '\0' x; printf '}'; exit 3`, mode)
		wantExit(t, res, "exited", 3)
		if len(res.Output) != 300001 || !strings.HasSuffix(res.Output, "x}") {
			t.Errorf("%s: %d characters, want 300001", mode, len(res.Output))
		}
	}
}

// TestQuickExits: a process that ends within a millisecond loses neither its
// output nor its code.
func TestQuickExits(t *testing.T) {
	s := startServer(t, serverOptions{})
	for _, mode := range bothModes {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for n := range 25 {
					code := (i*25 + n) % 50
					res := s.run(fmt.Sprintf("printf y; exit %d", code), mode)
					wantExit(t, res, "exited", code)
					if res.Output != "y" {
						t.Errorf("%s: output %q", mode, res.Output)
					}
				}
			})
		}
		wg.Wait()
	}
}

// TestPaging reads a mixture of characters and bytes that are none with every
// small limit.
func TestPaging(t *testing.T) {
	s := startServer(t, serverOptions{})
	raw := "héllo wörld ✅ 😀\xff\xfe\xe2\x82|\x80\x80é\xf0\x9f\x98 end €\n\xc3"
	file := filepath.Join(s.home, "raw")
	if err := os.WriteFile(file, []byte(strings.Repeat(raw, 5)), 0o644); err != nil {
		t.Fatal(err)
	}
	res := s.run("cat "+file, "stdio")
	whole := res.Output
	if !strings.HasPrefix(whole, "héllo wörld ✅ 😀\uFFFD\uFFFD\uFFFD|\uFFFD\uFFFDé\uFFFD end €\n\uFFFDh") {
		t.Errorf("whole text %q", whole)
	}
	for limit := int64(1); limit <= 64; limit++ {
		var got strings.Builder
		for offset := int64(0); ; {
			w, err := s.Wait(context.Background(), res.JobID, client.WaitRequest{Offset: offset, OutputLimit: limit})
			if err != nil {
				t.Fatal(err)
			}
			if !utf8.ValidString(w.Output) {
				t.Fatalf("limit %d at %d: %q is not UTF-8", limit, offset, w.Output)
			}
			got.WriteString(w.Output)
			if !w.Truncated {
				break
			}
			if w.Offset <= offset {
				t.Fatalf("limit %d does not get past %d", limit, offset)
			}
			offset = w.Offset
		}
		if got.String() != whole {
			t.Errorf("limit %d: joined text differs: %q", limit, got.String())
		}
	}
}

func TestBadByteIsQuick(t *testing.T) {
	s := startServer(t, serverOptions{})
	res := s.run(`head -c 524288 /dev/zero | tr '\0' a; printf '\377'; head -c 524287 /dev/zero | tr '\0' a`, "stdio")
	begin := time.Now()
	w, err := s.Tail(context.Background(), res.JobID, 1<<20)
	if err != nil || w.Offset != 1<<20 {
		t.Fatalf("tail: offset %d, %v", w.Offset, err)
	}
	var n int
	for offset := int64(0); offset < 1<<20; n++ {
		w, err := s.Wait(context.Background(), res.JobID, client.WaitRequest{Offset: offset, OutputLimit: 512 << 10})
		if err != nil {
			t.Fatal(err)
		}
		offset = w.Offset
	}
	if d := time.Since(begin); d > 2*time.Second || n > 3 {
		t.Errorf("reading 1 MiB took %v in %d windows", d, n)
	}
}

// TestSlowReader: a reader that takes its time influences nothing.
func TestSlowReader(t *testing.T) {
	s := startServer(t, serverOptions{})
	res := s.begin("seq 1 100000", "stdio")
	n := len(res.Output)
	for res = s.finishWindow(res); ; res = s.finishWindow(res) {
		n += len(res.Output)
		if res.Done && !res.Truncated {
			break
		}
	}
	if n != 588895 {
		t.Errorf("%d bytes, want 588895", n)
	}
}

// finishWindow reads the next small window.
func (s *testServer) finishWindow(res client.Result) client.Result {
	s.t.Helper()
	next, err := s.Wait(context.Background(), res.JobID, client.WaitRequest{Offset: res.Offset, Timeout: 10, OutputLimit: 4096})
	if err != nil {
		s.t.Fatal(err)
	}
	return next
}

// TestTailShowsTheEnd: a window never hides the last bytes.
func TestTailShowsTheEnd(t *testing.T) {
	s := startServer(t, serverOptions{})
	for _, mode := range bothModes {
		res := s.run(`head -c 200000 /dev/zero | tr '\0' x; echo; echo "error: build failed"; exit 1`, mode)
		w, err := s.Tail(context.Background(), res.JobID, 1000)
		if err != nil || !strings.HasSuffix(w.Output, "\nerror: build failed\n") || w.Truncated {
			t.Errorf("%s: tail %q, %v", mode, w.Output, err)
		}
	}
}

// TestBinaryOutput: the bytes of a stream can be had as they are.
func TestBinaryOutput(t *testing.T) {
	s := startServer(t, serverOptions{})
	res := s.run("head -c 100000 /dev/urandom | tee r.bin", "stdio")
	want, err := os.ReadFile(filepath.Join(s.home, "r.bin"))
	if err != nil {
		t.Fatal(err)
	}
	if status, got := s.call("GET", "/v1/jobs/"+res.JobID+"/log/raw", ""); status != 200 || got != string(want) {
		t.Errorf("raw: status %d, %d bytes that differ", status, len(got))
	}
	if status, got := s.call("GET", "/v1/jobs/"+res.JobID+"/log/raw", "", "Range", "bytes=100-199"); status != 206 || got != string(want[100:200]) {
		t.Errorf("raw range: status %d, %d bytes", status, len(got))
	}
}

// TestOutputCap: a job that prints too much goes on; its log has the beginning,
// how much was left out, and the end.
func TestOutputCap(t *testing.T) {
	s := startServer(t, serverOptions{env: []string{"SHELLCTL_MAX_OUTPUT_BYTES=100000"}})
	for _, mode := range bothModes {
		res := s.run("head -c 5000000 /dev/zero | tr '\\0' a; echo; echo END; exit 4", mode)
		wantExit(t, res, "exited", 4)
		left := 5000005 - 100000 - 64<<10
		note := fmt.Sprintf("\n[shellctl: %d bytes of output left out]\n", left)
		if !strings.Contains(res.Output, note) || !strings.HasSuffix(res.Output, "a\nEND\n") || len(res.Output) != 100000+64<<10+len(note) {
			t.Errorf("%s: %d bytes, want the note %q and the end; got the end %q", mode, len(res.Output), note, tail([]byte(res.Output)))
		}
	}
}

// TestOwnLog: a job that reads its own log can not feed itself for ever.
func TestOwnLog(t *testing.T) {
	s := startServer(t, serverOptions{env: []string{"SHELLCTL_MAX_OUTPUT_BYTES=100000"}})
	res := s.run(`echo seed; timeout 1 sh -c 'while cat "$(dirname "$1")/output.log"; do :; done' sh "$0"; exit 0`, "stdio")
	if len(res.Output) > 300000 {
		t.Errorf("the log grew to %d bytes", len(res.Output))
	}
}
