package applets_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"shellctl/pkg/client"
)

// TestSnapshotClients: other clients get along with the trailers.
func TestSnapshotClients(t *testing.T) {
	s := startServer(t, serverOptions{})
	wantExit(t, s.run("echo hello > f", "stdio"), "exited", 0)
	t.Run("curl", func(t *testing.T) {
		needTools(t, "curl")
		dir := tempDir(t, 0)
		head := sh(t, dir, "curl -sS -D head -o body -X POST -H 'Authorization: Bearer "+testToken+"' "+s.url+"/v1/snapshot/save; cat head; sha256sum body")
		sum := strings.Fields(head[strings.LastIndex(head, "\r\n")+2:])[0]
		for _, want := range []string{
			"\r\nTrailer: X-Snapshot-Status, X-Snapshot-Sha256, X-Snapshot-Bytes\r\n",
			"\r\nX-Snapshot-Status: ok\r\n", "\r\nX-Snapshot-Sha256: " + sum + "\r\n", "\r\nX-Snapshot-Bytes: ",
		} {
			if !strings.Contains(head, want) {
				t.Errorf("%q is missing in\n%s", want, head)
			}
		}
	})
	t.Run("python", func(t *testing.T) {
		needTools(t, "python3")
		host := strings.TrimPrefix(s.url, "http://")
		got := sh(t, s.home, `python3 -c '
import http.client
c = http.client.HTTPConnection("`+host+`")
h = {"Authorization": "Bearer `+testToken+`"}
for i in range(2):
    c.request("POST", "/v1/snapshot/save", headers=h)
    body = c.getresponse().read()
    c.request("POST", "/v1/snapshot/restore", body, h)
    print(c.getresponse().read().decode(), end="")
'`)
		var r client.Restored
		if err := json.NewDecoder(strings.NewReader(got)).Decode(&r); err != nil || r.Bytes != 6 || strings.Count(got, "\n") != 2 {
			t.Errorf("python prints %q", got)
		}
	})
}

// TestSnapshotOnTheWay: whatever happens to an archive on the way, the command
// that saves fails and leaves no file.
func TestSnapshotOnTheWay(t *testing.T) {
	s := startServer(t, serverOptions{})
	wantExit(t, s.run("head -c 100000 /dev/urandom > f", "stdio"), "exited", 0)
	for name, c := range map[string]struct {
		bend func(body []byte, w http.ResponseWriter, trailers http.Header)
		says string // empty: it succeeds
	}{
		"as it is": {func(body []byte, w http.ResponseWriter, trailers http.Header) {
			_, _ = w.Write(body)
			for key, values := range trailers {
				w.Header().Set(http.TrailerPrefix+key, values[0])
			}
		}, ""},
		"without trailers": {func(body []byte, w http.ResponseWriter, _ http.Header) {
			_, _ = w.Write(body)
		}, "snapshot_incomplete: the answer ended without X-Snapshot-Status; a proxy on the way may drop trailers"},
		"another status": {func(body []byte, w http.ResponseWriter, _ http.Header) {
			_, _ = w.Write(body)
			w.Header().Set(http.TrailerPrefix+"X-Snapshot-Status", "failed")
		}, `snapshot_incomplete: X-Snapshot-Status is "failed"`},
		"shorter": {func(body []byte, w http.ResponseWriter, trailers http.Header) {
			_, _ = w.Write(body[:len(body)-1])
			for key, values := range trailers {
				w.Header().Set(http.TrailerPrefix+key, values[0])
			}
		}, "snapshot_incomplete: "},
		"one bit": {func(body []byte, w http.ResponseWriter, trailers http.Header) {
			body[len(body)/2] ^= 1
			_, _ = w.Write(body)
			for key, values := range trailers {
				w.Header().Set(http.TrailerPrefix+key, values[0])
			}
		}, "snapshot_incomplete: the SHA-256 is "},
		"cut": {func(body []byte, w http.ResponseWriter, _ http.Header) {
			_, _ = w.Write(body[:len(body)/2])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "connection_error: "},
	} {
		t.Run(name, func(t *testing.T) { // one after the other, as saves must be
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, trailers := forward(t, s, r)
				w.Header().Set("Content-Type", "application/octet-stream")
				c.bend(body, w, trailers)
			}))
			t.Cleanup(proxy.Close)
			dir := tempDir(t, 0)
			cmd := exec.Command(program(t, "shellctl"), "snapshot", "save", "home.tar.zst", "--base-url", proxy.URL)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			left, rerr := os.ReadDir(dir)
			if rerr != nil {
				t.Fatal(rerr)
			}
			if c.says == "" {
				if err != nil || len(left) != 1 || left[0].Name() != "home.tar.zst" {
					t.Errorf("%v, %s; files %v", err, out, left)
				}
				return
			}
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.HasPrefix(string(out), "shellctl: "+c.says) || len(left) != 0 {
				t.Errorf("%v, %s; files %v", err, out, left)
			}
		})
	}
}

// forward passes a request on and returns the answer with its trailers.
func forward(t *testing.T, s *testServer, r *http.Request) ([]byte, http.Header) {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, s.url+r.URL.Path, r.Body)
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	out.Header.Set("Authorization", "Bearer "+testToken)
	resp, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return body, resp.Trailer
}

// TestSnapshotInterrupted: a command that is ended takes its file with it, and
// the server goes on.
func TestSnapshotInterrupted(t *testing.T) {
	s := startServer(t, serverOptions{})
	began := make(chan struct{})
	release := make(chan struct{})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("part"))
		_ = http.NewResponseController(w).Flush()
		close(began)
		<-release
	}))
	defer proxy.Close()
	defer close(release)
	dir := tempDir(t, 0)
	cmd := exec.Command(program(t, "shellctl"), "snapshot", "save", "home.tar.zst", "--base-url", proxy.URL)
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-began:
	case <-time.After(30 * time.Second):
		t.Error("the command does not begin")
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	s.save()
}

// TestRestoreRefusedEarly: a client that still sends learns why it is refused.
func TestRestoreRefusedEarly(t *testing.T) {
	s := startServer(t, serverOptions{})
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer zero.Close()
	const size = 1 << 30
	for range 10 {
		_, err := s.RestoreHome(context.Background(), io.LimitReader(zero, size), size)
		var e *client.Error
		if !errors.As(err, &e) || e.Code != "archive_malformed" {
			t.Errorf("a gigabyte of zeros: %v", err)
		}
	}
}
