package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shellctl/pkg/config"
	"shellctl/pkg/job"
	"shellctl/pkg/joblog"
	"shellctl/pkg/manager"
)

// jobs stands for the jobs of a server: it writes down what it is asked and
// answers with what it was given.
type jobs struct {
	dir    string // for scripts
	asked  []any
	script string // of the last run
	result manager.Result
	output string // of the result, behind its Window.Begin
	view   manager.View
	views  []manager.View
	raw    string
	err    error
	panics any // nil: it does not
}

func (j *jobs) ask(args ...any) error {
	j.asked = args
	if j.panics != nil {
		panic(j.panics)
	}
	return j.err
}

// answer is a result whose output lies in a file.
func (j *jobs) answer(args ...any) (manager.Result, error) {
	r := j.result
	if err := j.ask(args...); err != nil || j.output == "" {
		return r, err
	}
	f, err := os.CreateTemp(j.dir, "output*")
	if err != nil {
		return r, err
	}
	r.File = f
	r.Window.Offset = r.Window.Begin + int64(len(j.output))
	_, err = f.WriteAt([]byte(j.output), r.Window.Begin)
	return r, errors.Join(err, os.Remove(f.Name()))
}

func (j *jobs) Spill() (*os.File, error) { return spillTo(j.dir)() }

func (j *jobs) Run(_ context.Context, r manager.Request, w manager.WaitOptions) (manager.Result, error) {
	j.script = string(r.Script.Text)
	r.Script.Discard()
	r.Script = manager.Script{}
	return j.answer("run", r, w)
}

func (j *jobs) Wait(_ context.Context, id job.ID, w manager.WaitOptions) (manager.Result, error) {
	return j.answer("wait", id, w)
}

func (j *jobs) Tail(_ context.Context, id job.ID, limit int64) (manager.Result, error) {
	return j.answer("tail", id, limit)
}

func (j *jobs) Input(_ context.Context, id job.ID, text string, w manager.WaitOptions) (manager.Result, error) {
	return j.answer("input", id, text, w)
}

func (j *jobs) Resize(_ context.Context, id job.ID, t job.Terminal) (manager.View, error) {
	return j.view, j.ask("resize", id, t)
}

func (j *jobs) Status(_ context.Context, id job.ID) (manager.View, error) {
	return j.view, j.ask("status", id)
}

func (j *jobs) List(_ context.Context, s job.Status, limit int) ([]manager.View, error) {
	return j.views, j.ask("list", s, limit)
}

func (j *jobs) Terminate(_ context.Context, id job.ID, grace time.Duration) (manager.View, error) {
	return j.view, j.ask("terminate", id, grace)
}

func (j *jobs) Delete(_ context.Context, id job.ID, force bool, grace time.Duration) error {
	return j.ask("delete", id, force, grace)
}

func (j *jobs) OpenStream(_ context.Context, id job.ID, stderr bool) (*os.File, error) {
	if err := j.ask("raw", id, stderr); err != nil {
		return nil, err
	}
	path := filepath.Join(j.dir, "raw")
	if err := os.WriteFile(path, []byte(j.raw), 0o600); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// server is a real one over jobs.
type server struct {
	*jobs
	url    string
	logged *bytes.Buffer
}

func serve(t *testing.T, token string) server {
	t.Helper()
	s := server{jobs: &jobs{dir: t.TempDir()}, logged: &bytes.Buffer{}}
	ts := httptest.NewServer(New(s.jobs, token, slog.New(slog.NewTextHandler(s.logged, nil))))
	t.Cleanup(ts.Close)
	s.url = ts.URL
	return s
}

// call makes a request of "METHOD /path" and returns the answer and its body.
func (s server) call(t *testing.T, route, body string, header ...string) (*http.Response, string) {
	t.Helper()
	method, path, _ := strings.Cut(route, " ")
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // follows no redirect
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// want makes a request and compares the answer.
func (s server) want(t *testing.T, route, body string, status int, answer string, header ...string) {
	t.Helper()
	resp, got := s.call(t, route, body, header...)
	if resp.StatusCode != status || got != answer {
		t.Errorf("%s %.200s\n got %d %s\nwant %d %s", route, body, resp.StatusCode, got, status, answer)
	}
	if ct := resp.Header.Get("Content-Type"); ct != "application/json" || resp.Header.Get("X-Content-Type-Options") != "" {
		t.Errorf("%s: headers %v", route, resp.Header)
	}
}

func envelopeText(code, message string) string {
	m, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	return `{"error":{"code":"` + code + `","message":` + string(m) + "}}\n"
}

const id = "0123456789abcdef"

var (
	secs  = func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	moss  = time.Date(2026, 5, 6, 12, 0, 0, 999, time.FixedZone("", 3600))
	seven = 7
)

func TestAnswers(t *testing.T) {
	s := serve(t, "")
	s.result = manager.Result{ID: id, Status: job.StatusRunning, OutputPath: "/p/output.log", Window: joblog.Window{Begin: 1, More: true}}
	s.output = "<é\n\xff\xe2\x82" // 7 bytes
	running := `{"job_id":"` + id + `","done":false,"status":"running","exit_code":null,"output_path":"/p/output.log","output":"\u003cé\n` + "\uFFFD\uFFFD" + `","offset":8,"truncated":true}` + "\n"
	s.want(t, "POST /v1/jobs/run", `{"script":"x"}`, 200, running)
	s.want(t, "POST /v1/jobs/"+id+"/wait", `{}`, 200, running)
	s.want(t, "POST /v1/jobs/"+id+"/input", `{"text":"x"}`, 200, running)
	s.want(t, "GET /v1/jobs/"+id+"/log/tail", ``, 200, running)
	s.output = ""
	s.result = manager.Result{ID: id, Status: job.StatusExited, ExitCode: &seven, OutputPath: "/p"}
	s.want(t, "POST /v1/jobs/"+id+"/wait", `{}`, 200,
		`{"job_id":"`+id+`","done":true,"status":"exited","exit_code":7,"output_path":"/p","output":"","offset":0,"truncated":false}`+"\n")

	s.view = manager.View{ID: id, Status: job.StatusRunning, Created: moss, Size: 5}
	view := `{"job_id":"` + id + `","status":"running","done":false,"exit_code":null,"created_at":"2026-05-06T11:00:00Z","started_at":null,"ended_at":null,"offset":5}` + "\n"
	s.want(t, "GET /v1/jobs/"+id, ``, 200, view)
	s.want(t, "POST /v1/jobs/"+id+"/terminate", `{}`, 200, view)
	s.want(t, "POST /v1/jobs/"+id+"/terminal", `{"cols":80,"rows":24}`, 200, view)
	s.view = manager.View{ID: id, Status: job.StatusLost, Created: moss, Started: moss, Ended: moss.Add(time.Minute)}
	s.want(t, "GET /v1/jobs/"+id, ``, 200,
		`{"job_id":"`+id+`","status":"lost","done":true,"exit_code":null,"created_at":"2026-05-06T11:00:00Z","started_at":"2026-05-06T11:00:00Z","ended_at":"2026-05-06T11:01:00Z","offset":0}`+"\n")

	s.want(t, "GET /v1/jobs", ``, 200, `{"jobs":[]}`+"\n")
	s.views = []manager.View{{ID: id, Status: job.StatusExited, Created: moss, Started: moss, Ended: moss}, {ID: id, Status: job.StatusRunning, Created: moss}}
	s.want(t, "GET /v1/jobs", ``, 200, `{"jobs":[{"job_id":"`+id+`","status":"exited","created_at":"2026-05-06T11:00:00Z","started_at":"2026-05-06T11:00:00Z","ended_at":"2026-05-06T11:00:00Z"},`+
		`{"job_id":"`+id+`","status":"running","created_at":"2026-05-06T11:00:00Z"}]}`+"\n")
	s.want(t, "DELETE /v1/jobs/"+id, ``, 200, `{"job_id":"`+id+`","deleted":true}`+"\n")
	s.want(t, "GET /healthz", ``, 200, `{"status":"ok"}`+"\n")
}

// asks makes a request and compares what the jobs were asked.
func (s server) asks(t *testing.T, route, body string, want ...any) {
	t.Helper()
	s.asked = nil
	resp, got := s.call(t, route, body)
	if resp.StatusCode != 200 || !reflect.DeepEqual(s.asked, want) {
		t.Errorf("%s %s: %d %s\nasked %+v\n want %+v", route, body, resp.StatusCode, got, s.asked, want)
	}
}

func TestWaitDefaultsAndBounds(t *testing.T) {
	s := serve(t, "")
	for body, want := range map[string]manager.WaitOptions{
		`{}`:                                   {},
		`null`:                                 {},
		`{} trailing`:                          {},
		`{"nonsense":[1]}`:                     {},
		`{"OFFSET":3}`:                         {Offset: 3},
		`{"offset":9007199254740993}`:          {Offset: 9007199254740993},
		`{"timeout":0}`:                        {},
		`{"timeout":null}`:                     {},
		`{"timeout":0.25}`:                     {Timeout: secs(0.25)},
		`{"timeout":599.5}`:                    {Timeout: secs(599.5)},
		`{"timeout":600}`:                      {Timeout: secs(600)},
		`{"timeout":601}`:                      {Timeout: secs(600)},
		`{"timeout":1e300}`:                    {Timeout: secs(600)},
		`{"output_limit":0}`:                   {},
		`{"output_limit":1}`:                   {Limit: 1},
		`{"output_limit":524288}`:              {Limit: 524288},
		`{"output_limit":524289}`:              {Limit: 524288},
		`{"output_limit":9223372036854775807}`: {Limit: 524288},
		`{"idle_flush_seconds":0}`:             {},
		`{"idle_flush_seconds":0.01}`:          {IdleFlush: secs(0.01)},
		`{"idle_flush_seconds":1e308}`:         {IdleFlush: secs(600)},
	} {
		if want.Limit == 0 {
			want.Limit = 16384
		}
		if want.IdleFlush == 0 {
			want.IdleFlush = secs(0.5)
		}
		s.asks(t, "POST /v1/jobs/"+id+"/wait", body, "wait", job.ID(id), want)
		if want.Timeout == 0 {
			want.Timeout = secs(30)
		}
		inputBody := strings.Replace(strings.Replace(body, "null", "{}", 1), "{", `{"text":"t\n",`, 1)
		if !strings.Contains(body, "null") {
			s.asks(t, "POST /v1/jobs/"+id+"/input", strings.Replace(inputBody, ",}", "}", 1), "input", job.ID(id), "t\n", want)
		}
	}
}

func TestRunDefaultsAndBounds(t *testing.T) {
	s := serve(t, "")
	type request struct {
		r manager.Request
		w manager.WaitOptions
	}
	for body, change := range map[string]func(*request){
		``:                                      func(*request) {},
		`,"unknown":{}`:                         func(*request) {},
		`,"offset":-5`:                          func(*request) {}, // not a field of run
		`,"cwd":""`:                             func(*request) {},
		`,"cwd":null`:                           func(*request) {},
		`,"cwd":"~/x"`:                          func(q *request) { q.r.Cwd = "~/x" },
		`,"env":{"A":"1","B":""}`:               func(q *request) { q.r.Env = map[string]string{"A": "1", "B": ""} },
		`,"env":{"A B":"=\u0001"}`:              func(q *request) { q.r.Env = map[string]string{"A B": "=\x01"} },
		`,"env":{"A":null}`:                     func(q *request) { q.r.Env = map[string]string{"A": ""} },
		`,"mode":""`:                            func(*request) {},
		`,"mode":null`:                          func(*request) {},
		`,"mode":"stdio"`:                       func(q *request) { q.r.Mode = job.ModeStdio },
		`,"terminal":null`:                      func(*request) {},
		`,"terminal":{}`:                        func(*request) {},
		`,"terminal":{"cols":0}`:                func(*request) {},
		`,"terminal":{"cols":1}`:                func(q *request) { q.r.Terminal.Cols = 1 },
		`,"terminal":{"cols":4096,"rows":4096}`: func(q *request) { q.r.Terminal = job.Terminal{Cols: 4096, Rows: 4096} },
		`,"timeout":0`:                          func(*request) {},
		`,"timeout":1e308`:                      func(q *request) { q.w.Timeout = secs(600) },
		`,"output_limit":1e3`:                   nil,
		`,"output_limit":1048576`:               func(q *request) { q.w.Limit = 524288 },
	} {
		q := request{
			manager.Request{Mode: job.ModePTY, Terminal: job.Terminal{Cols: 200, Rows: 50}},
			manager.WaitOptions{Timeout: secs(30), Limit: 16384, IdleFlush: secs(0.5)},
		}
		if change == nil {
			s.want(t, "POST /v1/jobs/run", `{"script":"é\n"`+body+`}`, 400, envelopeText("invalid_request", "Invalid JSON body"))
			continue
		}
		change(&q)
		s.asks(t, "POST /v1/jobs/run", `{"script":"é\n"`+body+`}`, "run", q.r, q.w)
		if s.script != "é\n" {
			t.Errorf("%s: script %q", body, s.script)
		}
	}
}

func TestRefusals(t *testing.T) {
	s := serve(t, "")
	run, wait, input, resize := "POST /v1/jobs/run", "POST /v1/jobs/"+id+"/wait", "POST /v1/jobs/"+id+"/input", "POST /v1/jobs/"+id+"/terminal"
	for _, c := range []struct {
		route, body string
		status      int
		code, text  string
	}{
		{run, ``, 400, "invalid_request", "Invalid JSON body"},
		{run, `[]`, 400, "invalid_request", "Invalid JSON body"},
		{run, `{"script":5}`, 400, "invalid_request", "Invalid JSON body"},
		{run, `null`, 400, "invalid_request", "script is required"},
		{run, `{}`, 400, "invalid_request", "script is required"},
		{run, `{"script":""}`, 400, "invalid_request", "script is required"},
		{run, `{"script":"x","mode":"PTY"}`, 422, "validation_error", `invalid job mode "PTY"`},
		{run, `{"script":"x","mode":" pty"}`, 422, "validation_error", `invalid job mode " pty"`},
		{run, `{"script":"x","env":{"":"x"}}`, 422, "validation_error", "env names must be non-empty"},
		{run, `{"script":"x","env":{"A=B":"x"}}`, 422, "validation_error", `env name must not contain '=': "A=B"`},
		{run, `{"script":"x","env":{"=":"x"}}`, 422, "validation_error", `env name must not contain '=': "="`},
		{run, `{"script":"x","env":{"A":"x\u0000"}}`, 422, "validation_error", "env entries must not contain NUL"},
		{run, `{"script":"x","env":{"A\u0000":"x"}}`, 422, "validation_error", "env entries must not contain NUL"},
		{run, `{"script":"x","timeout":-1}`, 422, "validation_error", "timeout must not be negative"},
		{run, `{"script":"x","output_limit":-1}`, 422, "validation_error", "output_limit must not be negative"},
		{run, `{"script":"x","idle_flush_seconds":-0.1}`, 422, "validation_error", "idle_flush_seconds must not be negative"},
		{run, `{"script":"x","terminal":{"cols":-1}}`, 422, "validation_error", "terminal.cols must be from 1 to 4096"},
		{run, `{"script":"x","terminal":{"cols":4097}}`, 422, "validation_error", "terminal.cols must be from 1 to 4096"},
		{run, `{"script":"x","terminal":{"rows":65537}}`, 422, "validation_error", "terminal.rows must be from 1 to 4096"},
		{run, `{"script":"x","terminal":{"cols":"80"}}`, 400, "invalid_request", "Invalid JSON body"},
		{wait, ``, 400, "invalid_request", "Invalid JSON body"},
		{wait, `{`, 400, "invalid_request", "Invalid JSON body"},
		{wait, `{"offset":1.5}`, 400, "invalid_request", "Invalid JSON body"},
		{wait, `{"offset":1.0}`, 400, "invalid_request", "Invalid JSON body"},
		{wait, `{"offset":"0"}`, 400, "invalid_request", "Invalid JSON body"},
		{wait, `{"output_limit":9223372036854775808}`, 400, "invalid_request", "Invalid JSON body"},
		{wait, `{"timeout":1e309}`, 400, "invalid_request", "Invalid JSON body"},
		{wait, `{"offset":-1}`, 422, "validation_error", "offset must not be negative"},
		{wait, `{"timeout":-5}`, 422, "validation_error", "timeout must not be negative"},
		{input, ``, 400, "invalid_request", "Invalid JSON body"},
		{input, `{"text":5}`, 400, "invalid_request", "Invalid JSON body"},
		{input, `{"text":"x","offset":-1}`, 422, "validation_error", "offset must not be negative"},
		{input, `{"text":""}`, 400, "invalid_request", "text is required"},
		{input, `{"text":null}`, 400, "invalid_request", "text is required"},
		{input, `{}`, 400, "invalid_request", "text is required"},
		{resize, `{"cols":4097}`, 422, "validation_error", "terminal.cols must be from 1 to 4096"},
		{resize, `x`, 400, "invalid_request", "Invalid JSON body"},
		{"POST /v1/jobs/" + id + "/terminate", `{"grace_seconds":-1}`, 422, "validation_error", "grace_seconds must not be negative"},
		{"GET /v1/jobs/" + id + "/log/raw?stream=x", ``, 422, "validation_error", "stream must be stdout or stderr"},
	} {
		s.asked = nil
		s.want(t, c.route, c.body, c.status, envelopeText(c.code, c.text))
		if s.asked != nil {
			t.Errorf("%s %s: the jobs were asked %v", c.route, c.body, s.asked)
		}
	}
	big := strings.Repeat("x", 2*scriptInMemory)
	s.want(t, run, `{"script":"`+big+`","timeout":-1}`, 422, envelopeText("validation_error", "timeout must not be negative"))
	wantEmpty(t, s.dir)
	s.want(t, wait, `{"x":"`+strings.Repeat("x", config.MaxFieldBytes)+`"}`, 400, envelopeText("invalid_request", "Invalid JSON body"))
}

func TestQueries(t *testing.T) {
	s := serve(t, "")
	for query, want := range map[string]int64{
		"": 16384, "?output_limit=": 16384, "?output_limit=0": 16384, "?output_limit=-3": 16384, "?output_limit=abc": 16384, "?output_limit=1.5": 16384, "?offset=3": 16384,
		"?output_limit=1": 1, "?output_limit=524288": 524288, "?output_limit=524289": 524288, "?output_limit=99999999": 524288, "?output_limit=99999999999999999999": 524288,
	} {
		s.asks(t, "GET /v1/jobs/"+id+"/log/tail"+query, "", "tail", job.ID(id), want)
	}
	for query, want := range map[string]struct {
		status job.Status
		limit  int
	}{
		"": {"", 50}, "?limit=0": {"", 50}, "?limit=-1": {"", 50}, "?limit=abc": {"", 50}, "?limit=1.5": {"", 50}, "?limit=1": {"", 1}, "?limit=200": {"", 200}, "?limit=100000": {"", 200},
		"?status=running": {"running", 50}, "?status=bogus": {"bogus", 50}, "?status=running&status=exited": {"running", 50}, "?status=&limit=1": {"", 1},
	} {
		s.asks(t, "GET /v1/jobs"+query, "", "list", want.status, want.limit)
	}
	for query, want := range map[string]struct {
		force bool
		grace float64
	}{
		"": {false, 10}, "?force=false": {false, 10}, "?force=1": {false, 10}, "?force=TRUE": {false, 10}, "?force": {false, 10},
		"?force=true": {true, 10}, "?force=true&grace_seconds=abc": {true, 10}, "?force=true&grace_seconds=NaN": {true, 10}, "?force=true&grace_seconds=0": {true, 0},
		"?force=true&grace_seconds=0.5": {true, 0.5}, "?force=true&grace_seconds=-3": {true, 0}, "?force=true&grace_seconds=1e9": {true, 300}, "?force=true&grace_seconds=inf": {true, 300},
	} {
		s.asks(t, "DELETE /v1/jobs/"+id+query, "", "delete", job.ID(id), want.force, secs(want.grace))
	}
}

func TestTerminateGrace(t *testing.T) {
	s := serve(t, "")
	for body, want := range map[string]float64{
		``: 10, `{}`: 10, `null`: 10, `{"grace_seconds":null}`: 10, `{"grace_sec`: 10, `{"grace_seconds":"0"}`: 10,
		`{"grace_seconds":0}`: 0, `{"grace_seconds":0.25}`: 0.25, `{"grace_seconds":300}`: 300, `{"grace_seconds":1e300}`: 300,
	} {
		s.asks(t, "POST /v1/jobs/"+id+"/terminate", body, "terminate", job.ID(id), secs(want))
	}
}

func TestRaw(t *testing.T) {
	s := serve(t, "")
	s.raw = "\xff\x00raw"
	for query, stderr := range map[string]bool{"": false, "?stream=stdout": false, "?stream=stderr": true} {
		resp, got := s.call(t, "GET /v1/jobs/"+id+"/log/raw"+query, "")
		if resp.StatusCode != 200 || got != s.raw || resp.Header.Get("Content-Type") != "application/octet-stream" || !reflect.DeepEqual(s.asked, []any{"raw", job.ID(id), stderr}) {
			t.Errorf("%q: %d %q %v, asked %v", query, resp.StatusCode, got, resp.Header, s.asked)
		}
	}
	if resp, got := s.call(t, "GET /v1/jobs/"+id+"/log/raw", "", "Range", "bytes=2-"); resp.StatusCode != 206 || got != "raw" {
		t.Errorf("range: %d %q", resp.StatusCode, got)
	}
}

// Odd ids reach the jobs as they are; nothing of the path is taken for a route.
func TestOddIds(t *testing.T) {
	s := serve(t, "")
	for path, want := range map[string]string{
		"run": "run", "..%2F..%2Fetc": "../../etc", "a%00b": "a\x00b", "%2e%2e%2f": "../", "a%20b": "a b", strings.Repeat("a", 100_000): strings.Repeat("a", 100_000),
		id + "%2Flog": id + "/log", strings.ToUpper(id): strings.ToUpper(id),
	} {
		s.asks(t, "GET /v1/jobs/"+path, "", "status", job.ID(want))
	}
}

func TestRouting(t *testing.T) {
	s := serve(t, "tok")
	for route, allow := range map[string]string{
		"GET /": "", "GET /v1/nothing": "", "GET /v1/jobs/": "", "PUT /v1/prepare": "", "GET /v1/jobs/" + id + "/log": "", "POST /v1/jobs/" + id + "/wait/": "", "GET /v1/jobs/" + id + "/nothing": "",
		"POST /healthz": "GET, HEAD", "PUT /v1/jobs/run": "DELETE, GET, HEAD, POST", "PUT /v1/jobs": "GET, HEAD", "DELETE /v1/jobs": "GET, HEAD", "OPTIONS /v1/jobs": "GET, HEAD",
		"POST /v1/jobs/" + id: "DELETE, GET, HEAD", "GET /v1/jobs/" + id + "/wait": "POST", "POST /v1/jobs/" + id + "/log/tail": "GET, HEAD", "PATCH /v1/jobs/" + id + "/input": "POST",
	} {
		status, answer := 404, envelopeText("not_found", "no such route")
		if allow != "" {
			status, answer = 405, envelopeText("method_not_allowed", "method not allowed here; see the Allow header")
		}
		s.want(t, route, "", status, answer) // also without the token
		resp, _ := s.call(t, route, "")
		if got := resp.Header.Get("Allow"); got != allow {
			t.Errorf("%s: Allow %q, want %q", route, got, allow)
		}
	}
	for route, to := range map[string]string{"GET //v1/jobs": "/v1/jobs", "GET /v1/x/../jobs": "/v1/jobs"} {
		if resp, _ := s.call(t, route, ""); resp.StatusCode != 307 || resp.Header.Get("Location") != to {
			t.Errorf("%s: %d %v", route, resp.StatusCode, resp.Header)
		}
	}
	if resp, body := s.call(t, "HEAD /healthz", ""); resp.StatusCode != 200 || body != "" {
		t.Errorf("HEAD /healthz: %d %q", resp.StatusCode, body)
	}
}

func TestToken(t *testing.T) {
	s := serve(t, "tok")
	refused := envelopeText("unauthorized", "Missing or invalid bearer token")
	routes := []string{
		"POST /v1/jobs/run", "GET /v1/jobs", "GET /v1/jobs/" + id, "DELETE /v1/jobs/" + id, "POST /v1/jobs/" + id + "/wait", "POST /v1/jobs/" + id + "/input",
		"POST /v1/jobs/" + id + "/terminal", "POST /v1/jobs/" + id + "/terminate", "GET /v1/jobs/" + id + "/log/tail", "GET /v1/jobs/" + id + "/log/raw",
	}
	for _, route := range routes {
		s.want(t, route, "{", 401, refused) // before the body is looked at
	}
	for _, h := range []string{"", "Bearer nope", "bearer tok", "Bearer  tok", "Bearer tok x", "Basic dG9rOg==", "Bearer", "tok", "Bearer tokk", "Bearer to"} {
		s.want(t, "GET /v1/jobs", "", 401, refused, "Authorization", h)
	}
	if s.asked != nil {
		t.Errorf("the jobs were asked %v", s.asked)
	}
	s.want(t, "GET /v1/jobs", "", 200, `{"jobs":[]}`+"\n", "Authorization", "Bearer tok", "X-Access-Token", "x")
	s.want(t, "GET /healthz", "", 200, `{"status":"ok"}`+"\n")
	open := serve(t, "")
	for _, h := range []string{"", "Bearer x", "Basic x"} {
		open.want(t, "GET /v1/jobs", "", 200, `{"jobs":[]}`+"\n", "Authorization", h)
	}
}

func TestIdempotencyKey(t *testing.T) {
	s := serve(t, "")
	if resp, body := s.call(t, "POST /v1/jobs/run", `{"script":"x"}`, "Idempotency-Key", strings.Repeat("k", 256)); resp.StatusCode != 200 || s.asked[1].(manager.Request).Key != strings.Repeat("k", 256) {
		t.Errorf("%d %s, asked %v", resp.StatusCode, body, s.asked)
	}
	s.want(t, "POST /v1/jobs/run", `{"script":"x"}`, 422, envelopeText("validation_error", "Idempotency-Key is longer than 256 bytes"), "Idempotency-Key", strings.Repeat("k", 257))
}

// codesInSource reads all codes from the source of the package job.
func codesInSource(t *testing.T) []job.Code {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../job/job.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []job.Code
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			if typ, ok := v.Type.(*ast.Ident); ok && typ.Name == "Code" {
				s, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				codes = append(codes, job.Code(s))
			}
		}
		return true
	})
	return codes
}

func TestStatusOfEachCode(t *testing.T) {
	want := map[job.Code]int{
		"invalid_request": 400, "invalid_cwd": 400, "invalid_offset": 400, "archive_malformed": 400,
		"unauthorized": 401, "not_found": 404, "job_not_found": 404, "method_not_allowed": 405,
		"job_running": 409, "job_not_running": 409, "input_unsupported": 409, "input_blocked": 409, "snapshot_busy": 409, "idempotency_conflict": 409,
		"validation_error": 422, "input_line_too_long": 422, "request_timeout": 408, "too_many_jobs": 503, "too_many_files": 503, "disk_full": 507,
		"internal_error": 500, "internal_panic": 500, "home_unavailable": 500, "snapshot_failed": 500, "restore_failed": 500,
	}
	s := serve(t, "")
	for _, code := range codesInSource(t) {
		status, ok := want[code]
		if !ok {
			t.Errorf("no status is known for %s", code)
			continue
		}
		delete(want, code)
		s.logged.Reset()
		s.err = fmt.Errorf("ask: %w", job.Errorf(code, "the \"reason\""))
		s.want(t, "GET /v1/jobs/"+id, "", status, envelopeText(string(code), `the "reason"`))
		if logged := s.logged.Len() > 0; logged != (status == 500 || status == 507) {
			t.Errorf("%s: it was logged: %q", code, s.logged)
		}
	}
	if len(want) > 0 {
		t.Errorf("no code is called %v", want)
	}
	s.err = errors.New("disk on fire")
	s.want(t, "GET /v1/jobs/"+id, "", 500, envelopeText("internal_error", "disk on fire"))
	for errno, code := range map[error]job.Code{
		unix.ENOSPC: "disk_full", unix.EDQUOT: "disk_full", unix.EMFILE: "too_many_files", unix.ENFILE: "too_many_files", unix.EROFS: "internal_error",
	} {
		s.err = fmt.Errorf("write script: %w", &os.PathError{Op: "write", Path: "p", Err: errno})
		resp, body := s.call(t, "GET /v1/jobs/"+id, "")
		if resp.StatusCode != statusOf(code) || body != envelopeText(string(code), s.err.Error()) || (resp.Header.Get("Retry-After") == "1") != (resp.StatusCode == 503) {
			t.Errorf("%v: %d %v %s", errno, resp.StatusCode, resp.Header, body)
		}
	}
}

func TestErrorOfEachRoute(t *testing.T) {
	s := serve(t, "")
	s.err = job.Errorf(job.CodeJobNotFound, "Unknown job id")
	for route, body := range map[string]string{
		"POST /v1/jobs/run": `{"script":"x"}`, "GET /v1/jobs": "", "GET /v1/jobs/" + id: "", "DELETE /v1/jobs/" + id: "", "POST /v1/jobs/" + id + "/wait": "{}", "POST /v1/jobs/" + id + "/input": `{"text":"x"}`,
		"POST /v1/jobs/" + id + "/terminal": "{}", "POST /v1/jobs/" + id + "/terminate": "{}", "GET /v1/jobs/" + id + "/log/tail": "", "GET /v1/jobs/" + id + "/log/raw": "",
	} {
		s.want(t, route, body, 404, envelopeText("job_not_found", "Unknown job id"))
	}
}

func TestPanic(t *testing.T) {
	s := serve(t, "")
	s.panics = "oh no"
	s.want(t, "GET /v1/jobs", "", 500, envelopeText("internal_panic", "internal server error: oh no"))
	if !strings.Contains(s.logged.String(), "oh no") {
		t.Errorf("it was logged: %q", s.logged)
	}
	s.panics = nil
	s.want(t, "GET /v1/jobs", "", 200, `{"jobs":[]}`+"\n")
}

// A handler that wants the connection cut gets that.
func TestAbort(t *testing.T) {
	a := New(&jobs{panics: http.ErrAbortHandler}, "", slog.New(slog.DiscardHandler))
	defer func() {
		if v := recover(); v != http.ErrAbortHandler {
			t.Errorf("the server sees %v", v)
		}
	}()
	a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/v1/jobs", nil))
}

// A failure to keep a large script is the server's, and leaves nothing.
func TestSpillFailureIsInternal(t *testing.T) {
	s := serve(t, "")
	s.dir = filepath.Join(s.dir, "missing")
	resp, body := s.call(t, "POST /v1/jobs/run", `{"script":"`+strings.Repeat("x", 2*scriptInMemory)+`"}`)
	if resp.StatusCode != 500 || !strings.Contains(body, `"internal_error"`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// A client that leaves while it waits ends its call, which logs nothing.
func TestClientThatLeaves(t *testing.T) {
	var logged bytes.Buffer
	a := New(&jobs{err: context.Canceled}, "", slog.New(slog.NewTextHandler(&logged, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", "/v1/jobs/"+id+"/wait", strings.NewReader("{}")))
	if w.Body.Len() > 0 || logged.Len() > 0 {
		t.Errorf("answer %q, logged %q", w.Body, &logged)
	}
}
