// Package client calls the HTTP API of a server.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// Client calls one server. Its methods may be called from any goroutine.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// New returns a client of the server at base; an empty token sends none.
func New(base, token string) *Client {
	return &Client{base: strings.TrimRight(base, "/"), token: token, http: &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}}
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Error is an answer of the server that is no success, or none at all.
type Error struct {
	Status  int    // HTTP status; 0: no answer
	Code    string // of the error envelope, or one of those below
	Message string
}

// Codes of failures that no server reported.
const (
	CodeConnection     = "connection_error"
	CodeTimeout        = "request_timeout"
	CodeInvalidJSON    = "invalid_json"
	CodeInvalidPayload = "invalid_payload"
	CodeRequestFailed  = "request_failed"
)

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Result is the answer of run, wait, input and tail.
type Result struct {
	JobID      string `json:"job_id"`
	Done       bool   `json:"done"`
	Status     string `json:"status"`
	ExitCode   *int   `json:"exit_code"`
	OutputPath string `json:"output_path"`
	Output     string `json:"output"`
	Offset     int64  `json:"offset"`
	Truncated  bool   `json:"truncated"`
}

// View is the answer of status and terminate.
type View struct {
	JobID    string  `json:"job_id"`
	Status   string  `json:"status"`
	Done     bool    `json:"done"`
	ExitCode *int    `json:"exit_code"`
	Created  string  `json:"created_at"`
	Started  *string `json:"started_at"`
	Ended    *string `json:"ended_at"`
	Offset   int64   `json:"offset"`
}

// List is the answer of list.
type List struct {
	Jobs []Info `json:"jobs"`
}

// Info is one job of a list.
type Info struct {
	JobID   string `json:"job_id"`
	Status  string `json:"status"`
	Created string `json:"created_at"`
	Started string `json:"started_at,omitempty"`
	Ended   string `json:"ended_at,omitempty"`
}

// Deleted is the answer of delete.
type Deleted struct {
	JobID   string `json:"job_id"`
	Deleted bool   `json:"deleted"`
}

// Health is the answer of health.
type Health struct {
	Status string `json:"status"`
}

// Terminal is the size of a terminal.
type Terminal struct {
	Cols int `json:"cols,omitempty"`
	Rows int `json:"rows,omitempty"`
}

// WaitRequest says what to wait for; zero values leave the server's defaults.
type WaitRequest struct {
	Offset      int64   `json:"offset,omitempty"`
	Timeout     float64 `json:"timeout,omitempty"`            // seconds
	OutputLimit int64   `json:"output_limit,omitempty"`       // bytes
	IdleFlush   float64 `json:"idle_flush_seconds,omitempty"` // seconds
}

// RunRequest is a job to run.
type RunRequest struct {
	WaitRequest
	Script   string            `json:"script"`
	Cwd      string            `json:"cwd,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Mode     string            `json:"mode,omitempty"`
	Terminal *Terminal         `json:"terminal,omitempty"`

	Key string `json:"-"` // idempotency key; empty: none
}

// Run starts a job and waits for it.
func (c *Client) Run(ctx context.Context, r RunRequest) (Result, error) {
	var out Result
	h := http.Header{}
	if r.Key != "" {
		h.Set("Idempotency-Key", r.Key)
	}
	err := c.do(ctx, http.MethodPost, "/v1/jobs/run", h, r, &out)
	return out, err
}

// Wait waits for output or the end of a job.
func (c *Client) Wait(ctx context.Context, id string, r WaitRequest) (Result, error) {
	var out Result
	err := c.do(ctx, http.MethodPost, jobPath(id, "/wait"), nil, r, &out)
	return out, err
}

// Input types text into a job's terminal and then waits.
func (c *Client) Input(ctx context.Context, id, text string, r WaitRequest) (Result, error) {
	var out Result
	err := c.do(ctx, http.MethodPost, jobPath(id, "/input"), nil, struct {
		WaitRequest
		Text string `json:"text"`
	}{r, text}, &out)
	return out, err
}

// Resize changes the size of a job's terminal.
func (c *Client) Resize(ctx context.Context, id string, t Terminal) (View, error) {
	var out View
	err := c.do(ctx, http.MethodPost, jobPath(id, "/terminal"), nil, t, &out)
	return out, err
}

// Tail returns the end of a job's output; a limit of 0 is the server's default.
func (c *Client) Tail(ctx context.Context, id string, limit int64) (Result, error) {
	var out Result
	err := c.do(ctx, http.MethodGet, jobPath(id, fmt.Sprintf("/log/tail?output_limit=%d", limit)), nil, nil, &out)
	return out, err
}

// Status returns the state of a job.
func (c *Client) Status(ctx context.Context, id string) (View, error) {
	var out View
	err := c.do(ctx, http.MethodGet, jobPath(id, ""), nil, nil, &out)
	return out, err
}

// List returns jobs, the newest first; an empty status means all, a limit of 0 the server's default.
func (c *Client) List(ctx context.Context, status string, limit int) (List, error) {
	var out List
	q := url.Values{"limit": {fmt.Sprint(limit)}}
	if status != "" {
		q.Set("status", status)
	}
	err := c.do(ctx, http.MethodGet, "/v1/jobs?"+q.Encode(), nil, nil, &out)
	return out, err
}

// Terminate ends a job; a nil grace is the server's default.
func (c *Client) Terminate(ctx context.Context, id string, grace *float64) (View, error) {
	var out View
	err := c.do(ctx, http.MethodPost, jobPath(id, "/terminate"), nil, map[string]*float64{"grace_seconds": grace}, &out)
	return out, err
}

// Delete removes a job; with force it is ended first.
func (c *Client) Delete(ctx context.Context, id string, force bool, grace *float64) (Deleted, error) {
	q := url.Values{}
	if force {
		q.Set("force", "true")
	}
	if grace != nil {
		q.Set("grace_seconds", fmt.Sprint(*grace))
	}
	var out Deleted
	err := c.do(ctx, http.MethodDelete, jobPath(id, "?"+q.Encode()), nil, nil, &out)
	return out, err
}

// Health asks whether the server answers.
func (c *Client) Health(ctx context.Context) (Health, error) {
	var out Health
	err := c.do(ctx, http.MethodGet, "/healthz", nil, nil, &out)
	return out, err
}

func jobPath(id, rest string) string { return "/v1/jobs/" + url.PathEscape(id) + rest }

// do makes one call.
func (c *Client) do(ctx context.Context, method, path string, header http.Header, body, into any) error {
	var rd io.Reader
	kind := ""
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		rd, kind = bytes.NewReader(b), "application/json"
	}
	resp, err := c.send(ctx, method, path, header, rd, kind)
	if err != nil {
		return err
	}
	defer resp.Body.Close() // read to its end by answer
	return answer(resp, into)
}

// send makes a request, with a body of some kind or none.
func (c *Client) send(ctx context.Context, method, path string, header http.Header, body io.Reader, kind string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if s, ok := body.(sized); ok {
		s.apply(req)
	}
	if header != nil {
		req.Header = header
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, broken(0, err)
	}
	return resp, nil
}

// answer reads an answer to its end. One with a key that is not expected is an
// error: the contract allows none.
func answer(resp *http.Response, into any) error {
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return broken(resp.StatusCode, err)
	}
	if resp.StatusCode != http.StatusOK {
		return failure(resp.StatusCode, b)
	}
	if !json.Valid(b) {
		return &Error{Status: resp.StatusCode, Code: CodeInvalidJSON, Message: "the answer is no JSON"}
	}
	if !bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) {
		return &Error{Status: resp.StatusCode, Code: CodeInvalidPayload, Message: "the answer is no object"}
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return &Error{Status: resp.StatusCode, Code: CodeInvalidPayload, Message: err.Error()}
	}
	return nil
}

// broken is the error of a call that got no whole answer.
func broken(status int, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	code := CodeConnection
	if t := net.Error(nil); errors.As(err, &t) && t.Timeout() {
		code = CodeTimeout
	}
	return &Error{Status: status, Code: code, Message: err.Error()}
}

// failure reads the error envelope.
func failure(status int, body []byte) error {
	var env struct {
		Error *struct{ Code, Message string }
	}
	if !json.Valid(body) {
		return &Error{Status: status, Code: CodeInvalidJSON, Message: http.StatusText(status)}
	}
	if err := json.Unmarshal(body, &env); err != nil || env.Error == nil {
		return &Error{Status: status, Code: CodeRequestFailed, Message: http.StatusText(status)}
	}
	return &Error{Status: status, Code: env.Error.Code, Message: env.Error.Message}
}
