package stub_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shellctl/pkg/stub"
)

// answer serves one refusal to everything.
func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		w.Write([]byte(body))
	}
}

func TestRefusalMessages(t *testing.T) {
	for _, test := range []struct{ body, want string }{
		{"", "HTTP 418: "},
		{"plain", "HTTP 418: plain"},
		{`{"error":"x"}`, `HTTP 418: {"error":"x"}`},
		{`{"detail":"text"}`, "HTTP 418: text"},
		{`{"detail":null}`, "HTTP 418: "},
		{`{"detail":7}`, "HTTP 418: 7"},
		{`{"detail":{"code":"c","message":"m"}}`, "HTTP 418: m"},
		{`{"detail":{"code":"c","message":""}}`, `HTTP 418: {"code":"c","message":""}`},
		{`{"detail":{"code":1,"message":2}}`, `HTTP 418: {"code":1,"message":2}`},
		{`{"detail":[1]}`, `HTTP 418: {"detail":[1]}`},
		{`{"detail":{"code":"agent_stub_authorization_expired"}}`, "HTTP 418: the Agent Stub authorization expired after 5 minutes"},
	} {
		server := serve(t, answer(418, test.body))
		_, err := newClient(server.URL).Manifest(t.Context())
		if want := "agent stub config manifest failed: " + test.want; err == nil || !strings.HasPrefix(err.Error(), want) ||
			!strings.Contains(test.body, "expired") && err.Error() != want {
			t.Errorf("%s: %v, want %s", test.body, err, want)
		}
	}
}

func TestExpiredTellsWhatToDo(t *testing.T) {
	server := serve(t, answer(401, `{"detail":{"code":"agent_stub_authorization_expired","message":"m"}}`))
	_, err := newClient(server.URL).Connect(t.Context(), []string{"x"})
	wantError(t, err, "agent stub connect failed: HTTP 401: ", "expired after 5 minutes",
		"will not refresh automatically", "start a new shell tool call", "retry the command")
}

// Only the upload of a tool file asks for the code of an expired token; the
// drive belongs to servers that do not know the question.
func TestExposeExpiration(t *testing.T) {
	fake, c := newFake(t)
	path := write(t, filepath.Join(t.TempDir(), "f"), "x")
	c.UploadFile(t.Context(), path)
	c.PushDrive(t.Context(), path, "k", "")
	var got []string
	for _, call := range fake.TakeCalls() {
		if strings.Contains(call, "upload-request") {
			got = append(got, call)
		}
	}
	if len(got) != 2 || !strings.HasSuffix(got[0], "?expose_expiration=true") || strings.Contains(got[1], "?") {
		t.Errorf("upload requests %q", got)
	}
}

// TestOlderServerOnce makes sure that a genuine refusal costs one retry at most
// and is told as the server first said it.
func TestOlderServerOnce(t *testing.T) {
	for _, test := range []struct {
		name, first, second string
		status              int
		calls               int
		want                string
	}{
		{"newer", `{"detail":"bad reference"}`, `{"detail":[{"loc":["body","for_external"]}]}`, 422, 2, "HTTP 422: bad reference"},
		{"older", `{"detail":[{"loc":["body","for_frontend"]}]}`, `{"detail":"bad reference"}`, 422, 2, "HTTP 422: bad reference"},
		{"coded", `{"detail":{"code":"c","message":"no"}}`, `{}`, 422, 1, "HTTP 422: no"},
		{"other", `{"detail":"no"}`, `{}`, 400, 1, "HTTP 400: no"},
	} {
		calls := 0
		server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			calls++
			w.WriteHeader(test.status)
			if calls == 1 {
				w.Write([]byte(test.first))
			} else {
				w.Write([]byte(test.second))
			}
		})
		_, err := newClient(server.URL).PublicURL(t.Context(), "r")
		wantError(t, err, "request public download URL: agent stub file download request failed: "+test.want)
		if calls != test.calls {
			t.Errorf("%s: %d calls, want %d", test.name, calls, test.calls)
		}
	}
}

func TestNotALink(t *testing.T) {
	fake, c := newFake(t)
	fake.SetNote("text")
	dir := t.TempDir()
	target := write(t, filepath.Join(dir, "target"), "old")
	link := filepath.Join(dir, "link")
	if err := os.Symlink("target", link); err != nil {
		t.Fatal(err)
	}
	// The note goes where its user's link leads.
	if _, err := c.PullNote(t.Context(), link); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(target); err != nil || string(got) != "text" {
		t.Errorf("note %q, %v", got, err)
	}
	if _, err := os.Readlink(link); err != nil {
		t.Error(err)
	}
}

func TestQueryImages(t *testing.T) {
	const id = "0000000A-0000-4000-8000-00000000000B"
	got, err := stub.QueryImages([]string{id, "dify-file-ref:eyJyZWNvcmRfaWQiOiIwMDAwMDAwMC0wMDAwLTQwMDAtODAwMC0wMDAwMDAwMDAwMDIifQ=="})
	if err != nil || got[0] != strings.ToLower(id) || got[1] != "00000000-0000-4000-8000-000000000002" {
		t.Errorf("QueryImages = %q, %v", got, err)
	}
	for _, bad := range []string{
		"", "x", "http://h/x", id + "0", strings.ReplaceAll(id, "-", "_"), id[:35] + "g",
		"dify-file-ref:eyJyZWNvcmRfaWQiOiIxIn0=",   // no UUID in it
		"dify-file-ref:eyJyZWNvcmRfaWQiOiIxIn0",    // no padding
		"dify-file-ref:eyJyZWNvcmRfaWQiOiIxIn0=\n", // a line end
		strings.Repeat("x", 4097),
	} {
		if _, err := stub.QueryImages([]string{bad}); err == nil {
			t.Errorf("QueryImages(%q) succeeded", bad)
		}
	}
}

func TestKnowledgeLimits(t *testing.T) {
	c := newClient("http://127.0.0.1:1")
	_, err := c.Knowledge(t.Context(), stub.KnowledgeCommand{
		Name: "grep", ID: "1", Args: map[string]any{"query": strings.Repeat("x", 24<<10)},
	})
	wantError(t, err, "knowledge request exceeds 24576 bytes")
	for _, size := range []int{64<<10 - 100, 64 << 10} {
		body := `{"version":1,"command":"ls","command_id":"1","status":"ok","data":"` + strings.Repeat("x", size) + `"}`
		server := serve(t, answer(200, body))
		got, err := newClient(server.URL).Knowledge(t.Context(), stub.KnowledgeCommand{Name: "ls", ID: "1"})
		if fits := len(body) <= 64<<10; fits != (err == nil) || fits && string(got) != body {
			t.Errorf("%d bytes: %v", len(body), err)
		}
	}
}

func TestReadText(t *testing.T) {
	if got, err := stub.ReadText("-", strings.NewReader("A=1\n")); err != nil || string(got) != "A=1\n" {
		t.Errorf("stdin: %q, %v", got, err)
	}
	_, err := stub.ReadText("/dev/zero", nil)
	wantError(t, err, "read file: text exceeds")
	_, err = stub.ReadText("-", failing{})
	wantError(t, err, "read stdin: ")
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, os.ErrClosed }
