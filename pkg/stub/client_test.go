package stub_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shellctl/pkg/stub"
	"shellctl/testdata/fakestub"
)

const token = "secret-token-of-the-test"

// newClient returns a client of the server at base.
func newClient(base string) *stub.Client {
	return stub.New(stub.Environment{BaseURL: base + "/agent-stub", Token: token})
}

// serve starts a server that is closed with the test.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

// newFake starts a fake stub and a client for it.
func newFake(t *testing.T) (*fakestub.Stub, *stub.Client) {
	t.Helper()
	fake := fakestub.Start()
	t.Cleanup(func() {
		fake.Close()
		for _, p := range fake.TakeProblems() {
			t.Errorf("the stub complains: %s", p)
		}
	})
	return fake, stub.New(stub.Environment{BaseURL: fake.URL(), Token: fakestub.Token})
}

// wantError fails the test unless err contains all of parts and no secret.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q, want %q in it", err, part)
		}
	}
	for _, secret := range []string{token, fakestub.Token, "secret-signature"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("error %q shows a secret", err)
		}
	}
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestHang asks each kind of call of a server that accepts and says nothing, or
// one byte: the call ends when its time is up.
func TestHang(t *testing.T) {
	for _, mode := range []string{"hang", "slow"} {
		fake, c := newFake(t)
		c.SetTimeouts(100 * time.Millisecond)
		path := write(t, filepath.Join(t.TempDir(), "f"), "text")
		fake.AddFile("f", []byte("text"))
		for _, call := range []struct {
			route, want string
			do          func(context.Context) error
		}{
			{"connections", "timed out", func(ctx context.Context) error { _, err := c.Connect(ctx, nil); return err }},
			{"manifest", "timed out", func(ctx context.Context) error { _, err := c.Manifest(ctx); return err }},
			{"up", "timed out", func(ctx context.Context) error { _, err := c.UploadFile(ctx, path); return err }},
			{"dl", "download request timed out", func(ctx context.Context) error {
				_, err := c.PullFiles(ctx, []string{"f"}, t.TempDir())
				return err
			}},
			{"knowledge", "without a complete response", func(ctx context.Context) error {
				_, err := c.Knowledge(ctx, stub.KnowledgeCommand{Name: "spaces", ID: "1"})
				return err
			}},
		} {
			if mode == "slow" && call.route == "dl" {
				fake.Announce("f", 100)
			}
			fake.Fail(call.route, mode)
			wantError(t, call.do(t.Context()), call.want)
			fake.Fail(call.route, "")
		}
	}
}

// TestCancel cancels calls that wait for their server.
func TestCancel(t *testing.T) {
	for _, call := range []struct {
		want string
		do   func(context.Context, *stub.Client) error
	}{
		{"agent stub config manifest failed: request failed: interrupted", func(ctx context.Context, c *stub.Client) error {
			_, err := c.Manifest(ctx)
			return err
		}},
		{"interrupted", func(ctx context.Context, c *stub.Client) error {
			_, err := c.PullFiles(ctx, []string{"a", "b"}, t.TempDir())
			return err
		}},
		{"knowledge request ended without a complete response", func(ctx context.Context, c *stub.Client) error {
			_, err := c.Knowledge(ctx, stub.KnowledgeCommand{Name: "spaces", ID: "1"})
			return err
		}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // net/http notices a gone client only then
			cancel()
			<-r.Context().Done()
		})
		if err := call.do(ctx, newClient(server.URL)); err == nil || err.Error() != call.want {
			t.Errorf("got %v, want %s", err, call.want)
		}
		cancel()
	}
}

// TestTokenStaysHome redirects a call in every way: only the first origin may
// see the token, whatever net/http thinks of ports and sub-domains.
func TestTokenStaysHome(t *testing.T) {
	seen := make(chan string, 1)
	away := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization") + r.Header.Get("Referer")
		w.Write([]byte(`{"connection_id":"1","status":"connected"}`))
	})
	for _, status := range []int{301, 302, 303, 307, 308} {
		home := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Authorization"); got != "Bearer "+token {
				t.Errorf("%s: Authorization %q", r.URL, got)
			}
			if r.URL.Path == "/agent-stub/connections" {
				http.Redirect(w, r, "/second", status)
				return
			}
			http.Redirect(w, r, away.URL+"/x", status)
		})
		if _, err := newClient(home.URL).Connect(t.Context(), nil); err != nil {
			t.Errorf("%d: %v", status, err)
		}
		if got := <-seen; got != "" {
			t.Errorf("%d: another host saw %q", status, got)
		}
	}
}

func TestRedirectLoop(t *testing.T) {
	home := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) })
	_, err := newClient(home.URL).Manifest(t.Context())
	wantError(t, err, "agent stub config manifest failed: request failed: stopped after 10 redirects")
}

// TestProxy sends all three kinds of requests through the proxy of the
// environment. It needs a process of its own: net/http reads that once.
func TestProxy(t *testing.T) {
	if os.Getenv("STUB_TEST_PROXY") == "" {
		t.Skip("run by TestProxyVariables")
	}
	c := newClient("http://stub.invalid")
	if _, err := c.UploadFile(t.Context(), os.Args[0]); err == nil {
		t.Error("UploadFile succeeded")
	}
	path, err := c.DownloadFile(t.Context(), "tool_file", "r", t.TempDir())
	if err != nil || filepath.Base(path) != "name" {
		t.Errorf("DownloadFile = %q, %v", path, err)
	}
}
