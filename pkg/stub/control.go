package stub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// request is one control plane call.
type request struct {
	op     string // names the call in messages: "config push"
	method string
	path   string // below the base URL
	query  url.Values
	body   any // sent as JSON, or nil
}

// call makes one control plane call and returns the body of the answer.
func (c *Client) call(ctx context.Context, r request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.limits.control)
	defer cancel()
	resp, err := c.send(ctx, c.control, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := readAtMost(resp.Body, maxAnswer)
	if err != nil {
		return nil, fmt.Errorf("agent stub %s failed: read response: %w", r.op, cause(ctx, err))
	}
	return body, nil
}

// send starts a control plane call. A refusal is returned as *StatusError;
// the caller closes the body of any other answer.
func (c *Client) send(ctx context.Context, via *http.Client, r request) (*http.Response, error) {
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("agent stub %s failed: %w", r.op, err)
	}
	resp, err := via.Do(req)
	if err != nil {
		why := cause(ctx, err)
		return nil, fmt.Errorf("agent stub %s failed: request failed: %s", r.op, c.scrub(why.Error()))
	}
	if resp.StatusCode >= http.StatusBadRequest {
		defer resp.Body.Close()
		return nil, c.newStatusError(r.op, resp.StatusCode, readSome(resp.Body))
	}
	return resp, nil
}

func (c *Client) newRequest(ctx context.Context, r request) (*http.Request, error) {
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var content io.Reader
	if r.body != nil {
		data, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("marshal request: %w", err)
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, content)
	if err != nil {
		return nil, fmt.Errorf("create request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

var errTooLong = errors.New("response is too long")

// readAtMost reads all of r, which may have limit bytes.
func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, errTooLong
	}
	return data, nil
}

// readSome returns what can be had of the body of a refusal.
func readSome(r io.Reader) []byte {
	data, _ := io.ReadAll(io.LimitReader(r, maxFailure))
	return data
}

// Connection is the stub's answer to [Client.Connect].
type Connection struct {
	ID     string `json:"connection_id"`
	Status string `json:"status"`
}

// Connect asks the stub for a connection. It runs nothing: argv is only told.
func (c *Client) Connect(ctx context.Context, argv []string) (Connection, error) {
	body := map[string]any{"argv": append([]string{}, argv...), "metadata": map[string]any{}}
	data, err := c.call(ctx, request{op: "connect", method: http.MethodPost, path: "/connections", body: body})
	if err != nil {
		return Connection{}, err
	}
	var conn Connection
	if err := json.Unmarshal(data, &conn); err != nil {
		return Connection{}, fmt.Errorf("parse connect response: %w", err)
	}
	if conn.ID == "" {
		return Connection{}, errors.New("connect response is missing connection_id")
	}
	return conn, nil
}
