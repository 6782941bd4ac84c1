package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
)

// server answers every request with status and body, and keeps the last request.
type server struct {
	status int
	body   string
	got    *http.Request
	sent   string
	url    string
}

func serve(t *testing.T) *server {
	t.Helper()
	s := &server{status: 200}
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.got, s.sent = r, string(b)
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, s.body)
	}))
	t.Cleanup(ts.Close)
	s.url = ts.URL
	return s
}

const (
	id     = "0123456789abcdef"
	result = `{"job_id":"0123456789abcdef","done":true,"status":"exited","exit_code":7,"output_path":"/p","output":"o","offset":3,"truncated":true}`
	view   = `{"job_id":"0123456789abcdef","status":"running","done":false,"exit_code":null,"created_at":"c","started_at":null,"ended_at":null,"offset":3}`
)

func TestCalls(t *testing.T) {
	s := serve(t)
	c := New(s.url+"/proxy/sandbox/", "tok")
	defer c.Close()
	ctx, seven, grace := t.Context(), 7, 0.5
	wantResult := Result{JobID: id, Done: true, Status: "exited", ExitCode: &seven, OutputPath: "/p", Output: "o", Offset: 3, Truncated: true}
	wantView := View{JobID: id, Status: "running", Created: "c", Offset: 3}
	for _, tc := range []struct {
		call  func() (any, error)
		route string // below the prefix of the base
		sent  string
		body  string
		want  any
	}{
		{func() (any, error) { return c.Run(ctx, RunRequest{Script: "x"}) }, "POST /v1/jobs/run", `{"script":"x"}`, result, wantResult},
		{func() (any, error) {
			return c.Run(ctx, RunRequest{WaitRequest: WaitRequest{Timeout: 1.5, OutputLimit: 9, IdleFlush: 0.1}, Script: "<é\n", Cwd: "/c", Env: map[string]string{"A": "b"}, Mode: "stdio", Terminal: &Terminal{Cols: 1}, Key: "k"})
		}, "POST /v1/jobs/run", `{"timeout":1.5,"output_limit":9,"idle_flush_seconds":0.1,"script":"\u003cé\n","cwd":"/c","env":{"A":"b"},"mode":"stdio","terminal":{"cols":1}}`, result, wantResult},
		{func() (any, error) { return c.Wait(ctx, id, WaitRequest{Offset: 5}) }, "POST /v1/jobs/" + id + "/wait", `{"offset":5}`, result, wantResult},
		{func() (any, error) { return c.Input(ctx, id, "in\n", WaitRequest{}) }, "POST /v1/jobs/" + id + "/input", `{"text":"in\n"}`, result, wantResult},
		{func() (any, error) { return c.Tail(ctx, id, 9) }, "GET /v1/jobs/" + id + "/log/tail?output_limit=9", ``, result, wantResult},
		{func() (any, error) { return c.Status(ctx, id) }, "GET /v1/jobs/" + id, ``, view, wantView},
		{func() (any, error) { return c.Status(ctx, "a/../b?c d") }, "GET /v1/jobs/a%2F..%2Fb%3Fc%20d", ``, view, wantView},
		{func() (any, error) { return c.Resize(ctx, id, Terminal{80, 24}) }, "POST /v1/jobs/" + id + "/terminal", `{"cols":80,"rows":24}`, view, wantView},
		{func() (any, error) { return c.Terminate(ctx, id, nil) }, "POST /v1/jobs/" + id + "/terminate", `{"grace_seconds":null}`, view, wantView},
		{func() (any, error) { return c.Terminate(ctx, id, &grace) }, "POST /v1/jobs/" + id + "/terminate", `{"grace_seconds":0.5}`, view, wantView},
		{func() (any, error) { return c.List(ctx, "running", 5) }, "GET /v1/jobs?limit=5&status=running", ``, `{"jobs":[{"job_id":"a","status":"s","created_at":"c","ended_at":"e"}]}`, List{[]Info{{JobID: "a", Status: "s", Created: "c", Ended: "e"}}}},
		{func() (any, error) { return c.List(ctx, "", 0) }, "GET /v1/jobs?limit=0", ``, `{"jobs":[]}`, List{[]Info{}}},
		{func() (any, error) { return c.Delete(ctx, id, true, &grace) }, "DELETE /v1/jobs/" + id + "?force=true&grace_seconds=0.5", ``, `{"job_id":"a","deleted":true}`, Deleted{"a", true}},
		{func() (any, error) { return c.Health(ctx) }, "GET /healthz", ``, `{"status":"ok"}`, Health{"ok"}},
	} {
		s.body = tc.body + "\n"
		got, err := tc.call()
		if err != nil || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, %v, want %+v", tc.route, got, err, tc.want)
		}
		method, path, _ := strings.Cut(tc.route, " ")
		if s.got.Method != method || s.got.RequestURI != "/proxy/sandbox"+path || s.sent != tc.sent {
			t.Errorf("%s %s %s, want %s %s", s.got.Method, s.got.RequestURI, s.sent, tc.route, tc.sent)
		}
		wantType := ""
		if tc.sent != "" {
			wantType = "application/json"
		}
		if h := s.got.Header; h.Get("Authorization") != "Bearer tok" || h.Get("Content-Type") != wantType {
			t.Errorf("%s: headers %v", tc.route, h)
		}
		if key := s.got.Header.Get("Idempotency-Key"); (key == "k") != strings.Contains(tc.sent, "stdio") {
			t.Errorf("%s %s: key %q", tc.route, tc.sent, key)
		}
	}
}

func TestNoToken(t *testing.T) {
	s := serve(t)
	s.body = `{"status":"ok"}`
	if _, err := New(s.url, "").Health(t.Context()); err != nil || s.got.Header.Values("Authorization") != nil {
		t.Errorf("%v, %v", err, s.got.Header)
	}
}

func wantError(t *testing.T, what string, err error, status int, code string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Status != status || e.Code != code || e.Message == "" {
		t.Errorf("%s: %#v, want status %d, code %s", what, err, status, code)
	}
}

func TestAnswersThatAreNoSuccess(t *testing.T) {
	s := serve(t)
	c := New(s.url, "")
	for _, tc := range []struct {
		status int
		body   string
		code   string
	}{
		{200, `{"status":"ok","version":"1"}`, CodeInvalidPayload}, // the contract allows no other key
		{200, `{"status":5}`, CodeInvalidPayload},
		{200, `[]`, CodeInvalidPayload},
		{200, `"ok"`, CodeInvalidPayload},
		{200, `null`, CodeInvalidPayload},
		{200, ``, CodeInvalidJSON},
		{200, `<html>`, CodeInvalidJSON},
		{200, `{"status":"ok"`, CodeInvalidJSON},
		{404, `{"error":{"code":"job_not_found","message":"Unknown job id"}}`, "job_not_found"},
		{500, `{"error":{"code":"internal_error","message":"m","more":1}}`, "internal_error"},
		{404, "404 page not found\n", CodeInvalidJSON},
		{502, `<html>bad gateway</html>`, CodeInvalidJSON},
		{502, ``, CodeInvalidJSON},
		{500, `{}`, CodeRequestFailed},
		{422, `{"detail":[{"msg":"x"}]}`, CodeRequestFailed},
		{500, `{"error":null}`, CodeRequestFailed},
		{500, `{"error":"x"}`, CodeRequestFailed},
		{500, `null`, CodeRequestFailed},
		{500, `[]`, CodeRequestFailed},
	} {
		s.status, s.body = tc.status, tc.body
		h, err := c.Health(t.Context())
		wantError(t, tc.body, err, tc.status, tc.code)
		if tc.status != 200 && h != (Health{}) {
			t.Errorf("%s: %+v", tc.body, h)
		}
	}
	s.status, s.body = 404, `{"error":{"code":"job_not_found","message":"Unknown job id"}}`
	if _, err := c.Status(t.Context(), id); err == nil || err.Error() != "job_not_found: Unknown job id" {
		t.Errorf("%v", err)
	}
}

func TestNoAnswer(t *testing.T) {
	ts := httptest.NewServer(http.NotFoundHandler())
	ts.Close() // nobody listens any more
	_, err := New(ts.URL, "").Health(t.Context())
	wantError(t, "nobody listens", err, 0, CodeConnection)
	if _, err := New("http://[", "").Health(t.Context()); err == nil {
		t.Error("a base that is no URL was called")
	}
}

// stuck is a server that never completes its answer: with begin it sends a part.
func stuck(t *testing.T, begin string) string {
	t.Helper()
	gate := make(chan struct{})
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if begin != "" {
			_, _ = io.WriteString(w, begin)
			w.(http.Flusher).Flush()
		}
		<-gate
	}))
	t.Cleanup(ts.Close)
	t.Cleanup(func() { close(gate) })
	return ts.URL
}

func TestTimeout(t *testing.T) {
	for begin, status := range map[string]int{"": 0, `{"status":`: 200} {
		url := stuck(t, begin)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := New(url, "").Health(ctx)
		cancel()
		wantError(t, "deadline after "+begin, err, status, CodeTimeout)
	}
}

func TestCanceled(t *testing.T) {
	for _, begin := range []string{"", `{"status":`} {
		ctx, cancel := context.WithCancel(t.Context())
		c := New(stuck(t, begin), "")
		c.http.Transport = cancelOnAnswer{c.http.Transport, cancel, begin != ""}
		if _, err := c.Health(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled after %q: %#v", begin, err)
		}
	}
}

// cancelOnAnswer cancels when the answer has begun, or else with the request.
type cancelOnAnswer struct {
	http.RoundTripper
	cancel context.CancelFunc
	begun  bool
}

func (c cancelOnAnswer) RoundTrip(r *http.Request) (*http.Response, error) {
	if !c.begun {
		c.cancel()
	}
	resp, err := c.RoundTripper.RoundTrip(r)
	c.cancel()
	return resp, err
}

// A connection that ends inside of an answer gives no result.
func TestCutAnswer(t *testing.T) {
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"status":"ok"}`)
	}))
	defer ts.Close()
	_, err := New(ts.URL, "").Health(t.Context())
	wantError(t, "cut", err, 200, CodeConnection)
}

func TestLargeBodies(t *testing.T) {
	s := serve(t)
	script := strings.Repeat("x\n", 4<<20)
	s.body = strings.Replace(result, `"output":"o"`, `"output":"`+strings.Repeat("y", 4<<20)+`"`, 1)
	r, err := New(s.url, "").Run(t.Context(), RunRequest{Script: script})
	if err != nil || len(r.Output) != 4<<20 || bytes.Count([]byte(s.sent), []byte(`x\n`)) != 4<<20 {
		t.Errorf("%d bytes of output, %d sent, %v", len(r.Output), len(s.sent), err)
	}
}
