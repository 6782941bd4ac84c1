package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shellctl/pkg/config"
	"shellctl/pkg/snapshot"
)

// home is a server with a HOME of its own to save and restore.
type home struct {
	server
	dir   string
	snaps *snapshots
}

func serveHome(t *testing.T, cfg config.Snapshot) *home {
	t.Helper()
	h := &home{dir: t.TempDir()}
	t.Setenv("HOME", h.dir)
	h.jobs, h.logged = &jobs{dir: t.TempDir()}, &bytes.Buffer{}
	a := New(h.jobs, "secret", slog.New(slog.NewTextHandler(io.Discard, nil)))
	h.snaps = newSnapshots(cfg, filepath.Join(h.dir, "state"), a.log)
	h.snaps.addTo(a)
	ts := httptest.NewServer(a)
	t.Cleanup(ts.Close)
	h.url = ts.URL
	return h
}

// write makes files with their directories.
func (h *home) write(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(h.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// fill makes a file that no buffer between server and client holds.
func (h *home) fill(t *testing.T) {
	t.Helper()
	b := make([]byte, 12<<20)
	rand.Read(b)
	h.write(t, map[string]string{"large": string(b)})
}

// archive is a home of these files as a save sends it.
func archive(t *testing.T, files map[string]string) []byte {
	t.Helper()
	h := &home{dir: t.TempDir()}
	h.write(t, files)
	var b bytes.Buffer
	if _, err := snapshot.Save(context.Background(), &b, h.dir, snapshot.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// names restores an archive elsewhere and lists the files.
func names(t *testing.T, archive []byte) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := snapshot.Restore(context.Background(), bytes.NewReader(archive), dir, snapshot.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	var all []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

// raw is a connection that takes in little by itself.
type raw struct {
	*net.TCPConn
	t  *testing.T
	in *bufio.Reader
}

func (h *home) dial(t *testing.T) *raw {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	tcp := c.(*net.TCPConn)
	if err := tcp.SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	return &raw{tcp, t, bufio.NewReader(tcp)}
}

// send writes a request; lines are joined by CR LF.
func (r *raw) send(lines ...string) {
	r.t.Helper()
	if _, err := io.WriteString(r, strings.Join(lines, "\r\n")); err != nil {
		r.t.Fatal(err)
	}
}

// begin sends the head of a request with the token.
func (r *raw) begin(path string, header ...string) {
	r.t.Helper()
	r.send(append(append([]string{"POST " + path + " HTTP/1.1", "Host: x", "Authorization: Bearer secret"}, header...), "", "")...)
}

// head reads up to the first empty line, without the date.
func (r *raw) head() string {
	r.t.Helper()
	var b strings.Builder
	for {
		line, err := r.in.ReadString('\n')
		if err != nil {
			r.t.Fatalf("read head: %v after %q", err, b.String())
		}
		if line == "\r\n" {
			return b.String()
		}
		if !strings.HasPrefix(line, "Date: ") {
			b.WriteString(strings.TrimSuffix(line, "\r\n") + "\n")
		}
	}
}

// chunks reads a chunked body up to its last chunk.
func (r *raw) chunks() []byte {
	r.t.Helper()
	var all []byte
	for {
		var n int
		if _, err := fmt.Fscanf(r.in, "%x\r\n", &n); err != nil {
			r.t.Fatalf("read chunk: %v", err)
		}
		if n == 0 {
			return all
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r.in, b); err != nil {
			r.t.Fatalf("read chunk: %v", err)
		}
		all = append(all, b[:n]...)
	}
}

// rest reads to the end of the connection, however it comes.
func (r *raw) rest() string {
	b, _ := io.ReadAll(r.in)
	return string(b)
}

// awaitGate waits until no save or restore runs, and returns how long it took.
func (h *home) awaitGate(t *testing.T) time.Duration {
	t.Helper()
	begin := time.Now()
	free := make(chan time.Duration, 1)
	go func() {
		h.snaps.gate.Lock()
		took := time.Since(begin)
		h.snaps.gate.Unlock()
		free <- took
	}()
	select {
	case took := <-free:
		return took
	case <-time.After(20 * time.Second):
		t.Fatal("the gate is not freed")
		return 0
	}
}

const okHead = "HTTP/1.1 200 OK\n" +
	"Content-Type: application/octet-stream\n" +
	"Trailer: X-Snapshot-Status, X-Snapshot-Sha256, X-Snapshot-Bytes\n" +
	"Transfer-Encoding: chunked\n"

func TestSaveTrailers(t *testing.T) {
	h := serveHome(t, config.Snapshot{})
	h.write(t, map[string]string{"a": "x", "d/b": "y", "state/db": "z", ".local/share/shellctl/db": "z"})
	c := h.dial(t)
	for range 2 { // on one connection
		c.begin("/v1/snapshot/save", "Content-Length: 0")
		if got := c.head(); got != okHead {
			t.Fatalf("head:\n%swant:\n%s", got, okHead)
		}
		body := c.chunks()
		sum := sha256.Sum256(body)
		want := fmt.Sprintf("X-Snapshot-Bytes: %d\nX-Snapshot-Changed: 0\nX-Snapshot-Sha256: %s\nX-Snapshot-Skipped: 0\nX-Snapshot-Status: ok\n", len(body), hex.EncodeToString(sum[:]))
		if got := c.head(); got != want {
			t.Errorf("trailers:\n%swant:\n%s", got, want)
		}
		if got := names(t, body); got != "a d/b" {
			t.Errorf("saved %q", got)
		}
	}
}

func TestSaveBodies(t *testing.T) {
	h := serveHome(t, config.Snapshot{})
	h.write(t, map[string]string{"a.log": "x", "b": "y"})
	big := strings.Repeat("x", 70000)
	for _, c := range []struct{ body, want string }{
		{"", "a.log b"},
		{"  \n", "a.log b"},
		{"null", "a.log b"},
		{"{}", "a.log b"},
		{`{"excludes":[]}`, "a.log b"},
		{`{"excludes":null}`, "a.log b"},
		{`{"excludes":[]} x`, "a.log b"},
		{`{"excludes":["b"],"more":{}}`, "a.log"},
		{`{"excludes":["*.log","# b"," "]}`, "b"},
		{`{"excludes":["*","!b"]}` + big, "b"},
		{`{`, "!unexpected EOF"},
		{`{"excludes":"*.log"}`, "!json: cannot unmarshal string into Go struct field SaveRequest.excludes of type []string"},
		{`{"excludes":[1]}`, "!json: cannot unmarshal number into Go struct field SaveRequest.excludes of type string"},
		{`hello`, "!invalid character 'h' looking for beginning of value"},
		{`{"excludes":["` + big + `"]}`, "!unexpected EOF"},
		{`{}` + strings.Repeat(" ", 2<<20), "!read body: more than 1114112 bytes"},
		{`{"excludes":["ok","a[b"]}`, `!exclude pattern "a[b": `},
	} {
		resp, got := h.call(t, "POST /v1/snapshot/save", c.body, "Authorization", "Bearer secret")
		if message, bad := strings.CutPrefix(c.want, "!"); bad {
			want := strings.TrimSuffix(envelopeText("invalid_request", message), "\"}}\n")
			if resp.StatusCode != http.StatusBadRequest || !strings.HasPrefix(got, want) || resp.Header.Get("Trailer") != "" {
				t.Errorf("%.80s: %d %s, want %s", c.body, resp.StatusCode, got, want)
			}
			continue
		}
		if resp.StatusCode != http.StatusOK || resp.Trailer.Get("X-Snapshot-Status") != "ok" {
			t.Errorf("%.80s: %d %v", c.body, resp.StatusCode, resp.Trailer)
		} else if got := names(t, []byte(got)); got != c.want {
			t.Errorf("%.80s: saved %q, want %q", c.body, got, c.want)
		}
	}
}

// TestOrderOfErrors: of several that apply, which one a client gets.
func TestOrderOfErrors(t *testing.T) {
	h := serveHome(t, config.Snapshot{})
	token := []string{"Authorization", "Bearer secret"}
	const save, restore = "POST /v1/snapshot/save", "POST /v1/snapshot/restore"
	busy := envelopeText("snapshot_busy", "another snapshot operation is in progress")
	unauthorized := envelopeText("unauthorized", "Missing or invalid bearer token")
	missing := filepath.Join(h.dir, "missing")
	noHome := envelopeText("home_unavailable", "stat "+missing+": no such file or directory")

	h.snaps.gate.Lock()
	t.Setenv("HOME", missing)
	h.want(t, save, `{`, 401, unauthorized)
	h.want(t, restore, `x`, 401, unauthorized)
	h.want(t, save, `{`, 400, envelopeText("invalid_request", "unexpected EOF"), token...)
	h.want(t, save, ``, 409, busy, token...)
	h.want(t, restore, `x`, 409, busy, token...)
	h.snaps.gate.Unlock()
	h.want(t, save, ``, 500, noHome, token...)
	h.want(t, restore, `x`, 500, noHome, token...)
	t.Setenv("HOME", "")
	h.want(t, save, ``, 500, envelopeText("home_unavailable", "HOME is not set"), token...)
	h.want(t, restore, ``, 500, envelopeText("home_unavailable", "HOME is not set"), token...)
	h.write(t, map[string]string{"file": ""})
	file := filepath.Join(h.dir, "file")
	t.Setenv("HOME", file)
	h.want(t, save, ``, 500, envelopeText("home_unavailable", "open "+file+": not a directory"), token...)
	h.want(t, restore, `x`, 500, envelopeText("home_unavailable", "open "+file+": not a directory"), token...)
	t.Setenv("HOME", h.dir) // looked up each time
	h.want(t, restore, `garbage`, 400, envelopeText("archive_malformed", "archive malformed: invalid input: magic number mismatch"), token...)
	h.want(t, restore, ``, 200, `{"entries":0,"bytes_written":0}`+"\n", token...)
	h.want(t, "GET /v1/snapshot/save", ``, 405, envelopeText("method_not_allowed", "method not allowed here; see the Allow header"))
}

func TestRestoreRoute(t *testing.T) {
	h := serveHome(t, config.Snapshot{MaxBytes: 10, MaxEntries: 3})
	token := []string{"Authorization", "Bearer secret"}
	const restore = "POST /v1/snapshot/restore"
	h.write(t, map[string]string{"d/kept": "k", "d/f": "old"})
	h.want(t, restore, string(archive(t, map[string]string{"d/f": "new", "g": "1234567"})), 200, `{"entries":3,"bytes_written":10}`+"\n", token...)
	for name, want := range map[string]string{"d/kept": "k", "d/f": "new", "g": "1234567"} {
		if got, err := os.ReadFile(filepath.Join(h.dir, name)); string(got) != want {
			t.Errorf("%s is %q, %v, want %q", name, got, err, want)
		}
	}
	h.want(t, restore, string(archive(t, map[string]string{"f": "12345678901"})), 500,
		envelopeText("restore_failed", `restore "f": more than 10 bytes`), token...)
	h.want(t, restore, string(archive(t, map[string]string{"1": "", "2": "", "3": "", "4": ""})), 500,
		envelopeText("restore_failed", `restore "4": more than 3 entries`), token...)
	h.want(t, restore, string(archive(t, map[string]string{"state/db": ""})), 400,
		envelopeText("archive_malformed", `archive malformed: entry in the state directory: "state"`), token...)
	h.want(t, restore, string(archive(t, map[string]string{"d": ""})), 500,
		envelopeText("restore_failed", `restore "d": is a directory`), token...)
}

// TestRestoreNoSpace: an archive that can not fit is refused unread.
func TestRestoreNoSpace(t *testing.T) {
	h := serveHome(t, config.Snapshot{})
	c := h.dial(t)
	c.begin("/v1/snapshot/restore", "Content-Length: 1000000000000000000")
	if got := c.head(); !strings.HasPrefix(got, "HTTP/1.1 500 ") || !strings.Contains(got, "\nConnection: close\n") {
		t.Errorf("head:\n%s", got)
	}
	if got := c.rest(); !strings.HasPrefix(got, `{"error":{"code":"restore_failed","message":"restore home: the archive has 1000000000000000000 bytes, `) {
		t.Errorf("body %s", got)
	}
	h.awaitGate(t)
}
