package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
)

// saver is a server whose saves end with some trailers.
func saver(t *testing.T, body string, trailers map[string]string) *Client {
	t.Helper()
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, err := io.ReadAll(r.Body)
		if err != nil || r.Method+r.URL.Path+string(asked) != `POST/v1/snapshot/save{"excludes":["a"]}` || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("asked %s %s %s %v, %v", r.Method, r.URL.Path, asked, r.Header, err)
		}
		_, _ = io.WriteString(w, body)
		_ = http.NewResponseController(w).Flush() // in chunks: others have no trailers
		for name, value := range trailers {
			w.Header().Set(http.TrailerPrefix+"X-Snapshot-"+name, value)
		}
	}))
	t.Cleanup(ts.Close)
	return New(ts.URL, "secret")
}

func TestSaveHome(t *testing.T) {
	sum := sha256.Sum256([]byte("archive"))
	digest := hex.EncodeToString(sum[:])
	good := func(change ...string) map[string]string {
		m := map[string]string{"Status": "ok", "Bytes": "7", "Sha256": digest, "Skipped": "2", "Changed": "3"}
		for i := 0; i < len(change); i += 2 {
			m[change[i]] = change[i+1]
		}
		return m
	}
	for _, c := range []struct {
		trailers map[string]string
		want     Saved
		says     string
	}{
		{good(), Saved{7, digest, 2, 3}, ""},
		{good("Sha256", strings.ToUpper(digest), "Skipped", "", "Changed", "x"), Saved{7, digest, 0, 0}, ""},
		{nil, Saved{}, "the answer ended without X-Snapshot-Status; a proxy on the way may drop trailers"},
		{good("Status", "failed"), Saved{}, `X-Snapshot-Status is "failed"`},
		{good("Bytes", "8"), Saved{}, "7 bytes arrived of 8"},
		{good("Bytes", ""), Saved{}, "7 bytes arrived of "},
		{good("Sha256", "00"), Saved{}, "the SHA-256 is " + digest + ", not 00"},
	} {
		var b bytes.Buffer
		got, err := saver(t, "archive", c.trailers).SaveHome(t.Context(), &b, []string{"a"})
		if c.says != "" {
			var e *Error
			if !errors.As(err, &e) || e.Code != CodeSnapshotIncomplete || e.Message != c.says {
				t.Errorf("%v: %v, want %q", c.trailers, err, c.says)
			}
		} else if err != nil || got != c.want || b.String() != "archive" {
			t.Errorf("%v: %+v %q, %v, want %+v", c.trailers, got, b.String(), err, c.want)
		}
	}
}

// full takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

var errFull = errors.New("no space")

func TestSaveHomeFails(t *testing.T) {
	if _, err := saver(t, "archive", nil).SaveHome(t.Context(), full{}, []string{"a"}); !errors.Is(err, errFull) {
		t.Errorf("into a writer that fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New("http://127.0.0.1:1", "").SaveHome(ctx, io.Discard, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"error":{"code":"snapshot_busy","message":"m"}}`)
	}))
	t.Cleanup(ts.Close)
	var e *Error
	if _, err := New(ts.URL, "").SaveHome(t.Context(), io.Discard, nil); !errors.As(err, &e) || *e != (Error{409, "snapshot_busy", "m"}) {
		t.Errorf("busy: %v", err)
	}
}

func TestRestoreHome(t *testing.T) {
	var length int64
	var body string
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		length, body = r.ContentLength, r.Method+r.URL.Path+" "+string(b)
		_, _ = io.WriteString(w, `{"entries":3,"bytes_written":5}`)
	}))
	t.Cleanup(ts.Close)
	for _, c := range []struct {
		text string
		size int64
	}{{"archive", 7}, {"archive", -1}, {"", 0}, {"", -1}} {
		got, err := New(ts.URL, "").RestoreHome(t.Context(), iotest.OneByteReader(strings.NewReader(c.text)), c.size)
		if err != nil || got != (Restored{3, 5}) || length != c.size && c.text != "" || body != "POST/v1/snapshot/restore "+c.text {
			t.Errorf("%q of size %d: %+v, %v; the server got %q of size %d", c.text, c.size, got, err, body, length)
		}
	}
	if _, err := New(ts.URL, "").RestoreHome(t.Context(), iotest.ErrReader(errFull), -1); !errors.Is(err, errFull) && !strings.Contains(err.Error(), "no space") {
		t.Errorf("of a reader that fails: %v", err)
	}
}
