package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"shellctl/pkg/config"
)

const (
	short = 300 * time.Millisecond // a limit that is waited for
	never = time.Hour              // one that must not be needed
)

// beginSave begins a save that waits for its client to read.
func (h *home) beginSave(t *testing.T) *raw {
	t.Helper()
	h.fill(t)
	c := h.dial(t)
	c.begin("/v1/snapshot/save")
	if got := c.head(); got != okHead {
		t.Fatalf("head:\n%s", got)
	}
	return c
}

// beginRestore begins a restore that waits for more of a body.
func (h *home) beginRestore(t *testing.T, header string) *raw {
	t.Helper()
	c := h.dial(t)
	c.begin("/v1/snapshot/restore", header, "Expect: 100-continue")
	if got := c.head(); got != "HTTP/1.1 100 Continue\n" { // sent when the body is first read, behind the gate
		t.Fatalf("head:\n%s", got)
	}
	return c
}

func TestGate(t *testing.T) {
	busy := envelopeText("snapshot_busy", "another snapshot operation is in progress")
	token := []string{"Authorization", "Bearer secret"}
	for name, begin := range map[string]func(*home, *testing.T) *raw{
		"save":    (*home).beginSave,
		"restore": func(h *home, t *testing.T) *raw { return h.beginRestore(t, "Transfer-Encoding: chunked") },
	} {
		t.Run(name, func(t *testing.T) {
			h := serveHome(t, config.Snapshot{Timeout: never})
			c := begin(h, t)
			h.want(t, "POST /v1/snapshot/save", ``, 409, busy, token...)
			h.want(t, "POST /v1/snapshot/restore", `x`, 409, busy, token...)
			// One that stalls is told so too.
			other := h.dial(t)
			other.begin("/v1/snapshot/restore", "Content-Length: 10")
			if got := other.head(); !strings.HasPrefix(got, "HTTP/1.1 409 ") || !strings.Contains(got, "\nConnection: close\n") {
				t.Errorf("head:\n%s", got)
			}
			h.want(t, "GET /v1/jobs", ``, 200, `{"jobs":[]}`+"\n", token...)
			if err := c.Close(); err != nil { // the peer goes: long before the deadline
				t.Fatal(err)
			}
			h.awaitGate(t)
			h.want(t, "POST /v1/snapshot/restore", ``, 200, `{"entries":0,"bytes_written":0}`+"\n", token...)
		})
	}
}

// TestSaveLimits: a client that does not read is cut off, inside a large file too.
func TestSaveLimits(t *testing.T) {
	for name, cfg := range map[string]config.Snapshot{
		"deadline": {Timeout: 3 * time.Second}, // the first bytes must arrive meanwhile
		"idle":     {Timeout: never, IdleTimeout: short},
	} {
		t.Run(name, func(t *testing.T) {
			h := serveHome(t, cfg)
			c := h.beginSave(t)
			h.awaitGate(t)
			got := c.rest()
			if strings.HasSuffix(got, "0\r\n\r\n") || strings.Contains(got, "X-Snapshot-") {
				t.Errorf("the answer ends like a whole one: %q", got[max(0, len(got)-200):])
			}
		})
	}
}

// TestSaveSlowReader: whoever reads at all is not stalled.
func TestSaveSlowReader(t *testing.T) {
	h := serveHome(t, config.Snapshot{Timeout: never, IdleTimeout: 20 * time.Second})
	c := h.beginSave(t)
	c.chunks()
	if got := c.head(); !strings.HasSuffix(got, "X-Snapshot-Status: ok\n") {
		t.Errorf("trailers:\n%s", got)
	}
}

func TestSaveBeforeFirstByte(t *testing.T) {
	h := serveHome(t, config.Snapshot{Timeout: 1})
	h.write(t, map[string]string{"a": "x"})
	// The body has the same time, so there is none.
	h.want(t, "POST /v1/snapshot/save", ``, 500,
		envelopeText("snapshot_failed", "the snapshot was not done within 1ns: i/o timeout"), "Authorization", "Bearer secret")
	resp, _ := h.call(t, "POST /v1/snapshot/save", ``, "Authorization", "Bearer secret")
	if resp.Header.Get("Trailer") != "" || resp.ContentLength < 0 {
		t.Errorf("headers %v", resp.Header)
	}
}

func TestRestoreLimits(t *testing.T) {
	whole := string(archive(t, map[string]string{"a": strings.Repeat("x", 1000)}))
	for name, cfg := range map[string]config.Snapshot{
		"deadline": {Timeout: short},
		"idle":     {Timeout: never, IdleTimeout: short},
	} {
		t.Run(name, func(t *testing.T) {
			h := serveHome(t, cfg)
			c := h.beginRestore(t, "Content-Length: 100000")
			c.send(whole[:len(whole)/2])
			if got := c.head(); !strings.HasPrefix(got, "HTTP/1.1 500 ") || !strings.Contains(got, "\nConnection: close\n") {
				t.Errorf("head:\n%s", got)
			}
			want := "read archive: the snapshot was not done within 300ms: i/o timeout"
			if cfg.IdleTimeout > 0 {
				want = "read archive: the client stalled for 300ms: i/o timeout"
			}
			if got := c.rest(); got != envelopeText("restore_failed", want) {
				t.Errorf("body %s", got)
			}
			h.awaitGate(t)
		})
	}
}

// TestRestoreCut: a body that ends early is not the archive's fault.
func TestRestoreCut(t *testing.T) {
	for _, header := range []string{"Content-Length: 100000", "Transfer-Encoding: chunked"} {
		h := serveHome(t, config.Snapshot{Timeout: never})
		c := h.beginRestore(t, header)
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got := c.head(); !strings.HasPrefix(got, "HTTP/1.1 500 ") {
			t.Errorf("head:\n%s", got)
		}
		got := c.rest() // the end is seen by who reads and by the server, in any order
		if got != envelopeText("restore_failed", "read archive: unexpected EOF") && got != envelopeText("restore_failed", "read archive: the client has left") {
			t.Errorf("%s: body %s", header, got)
		}
		h.awaitGate(t)
	}
}

// TestSaveBodyStalls: the gate is not held by a client that has not asked yet.
func TestSaveBodyStalls(t *testing.T) {
	h := serveHome(t, config.Snapshot{Timeout: short})
	c := h.dial(t)
	c.begin("/v1/snapshot/save", "Content-Length: 100")
	c.send(`{"excludes":`)
	if d := h.awaitGate(t); d > 20*short {
		t.Errorf("the gate was held for %v", d)
	}
	if got := c.head(); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
		t.Errorf("head:\n%s", got)
	}
	if got := c.rest(); !strings.Contains(got, `"code":"invalid_request","message":"read body: `) || !strings.Contains(got, "i/o timeout") {
		t.Errorf("body %s", got)
	}
}

// deadlines records what is set of a connection.
type deadlines struct {
	*httptest.ResponseRecorder
	write []time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.write = append(d.write, t)
	return nil
}

// TestDeadlineDoesNotStay: a connection is used again after a save.
func TestDeadlineDoesNotStay(t *testing.T) {
	s := serve(t, "")
	d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	New(s.jobs, "", nil).ServeHTTP(d, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/jobs", nil))
	if len(d.write) != 1 || !d.write[0].IsZero() {
		t.Errorf("write deadlines %v, want none", d.write)
	}
}
