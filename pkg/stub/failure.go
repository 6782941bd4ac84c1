package stub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// codeExpired is the code of a refused token that was good once.
const codeExpired = "agent_stub_authorization_expired"

// hintExpired replaces the server's message: the reader of it is a model that
// can do something about it.
const hintExpired = "the Agent Stub authorization expired after 5 minutes and will not refresh automatically; " +
	"start a new shell tool call and retry the command there"

// errTimedOut and errInterrupted stand for the context's own errors.
var (
	errTimedOut    = errors.New("timed out")
	errInterrupted = errors.New("interrupted")
)

// StatusError is a refusal by the stub.
type StatusError struct {
	Op      string // the call, as in "config push", or ""
	Status  int
	Code    string // code of a structured detail, or ""
	Message string

	bracketed bool // the drive calls have their own form
}

func (e *StatusError) Error() string {
	switch {
	case e.Op == "":
		return fmt.Sprintf("HTTP %d: %s", e.Status, e.Message)
	case e.bracketed:
		return fmt.Sprintf("agent stub %s failed (HTTP %d): %s", e.Op, e.Status, e.Message)
	}
	return fmt.Sprintf("agent stub %s failed: HTTP %d: %s", e.Op, e.Status, e.Message)
}

// newStatusError reads the reason out of the body of a refusal.
func (c *Client) newStatusError(op string, status int, body []byte) *StatusError {
	code, message := parseDetail(body)
	if code == codeExpired {
		message = hintExpired
	}
	return &StatusError{Op: op, Status: status, Code: code, Message: c.scrub(message)}
}

// parseDetail returns the code and message of {"detail": …}. Whatever has
// another form is its own message.
func parseDetail(body []byte) (code, message string) {
	raw := strings.TrimSpace(string(body))
	var envelope struct {
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &envelope) != nil || envelope.Detail == nil {
		return "", raw
	}
	switch envelope.Detail[0] {
	case 'n': // null
		return "", ""
	case '[': // the list of a failed validation says little without its frame
		return "", raw
	case '"':
		json.Unmarshal(envelope.Detail, &message) // a string: it was parsed once
		return "", message
	case '{':
		return parseStructured(envelope.Detail)
	}
	return "", string(envelope.Detail)
}

func parseStructured(detail []byte) (code, message string) {
	var fields map[string]any
	json.Unmarshal(detail, &fields) // an object: it was parsed once
	code, _ = fields["code"].(string)
	message, _ = fields["message"].(string)
	if message == "" {
		message = string(detail)
	}
	return code, message
}

// olderServer reports whether err may come from a server that does not know
// the question: one of the statuses, and no code, since a code comes from a
// server that understood.
func olderServer(err error, statuses ...int) bool {
	refusal := (*StatusError)(nil)
	return errors.As(err, &refusal) && refusal.Code == "" && slices.Contains(statuses, refusal.Status)
}

// noSuchRoute reports whether err is a server's answer to an unknown route.
func noSuchRoute(err error) bool {
	refusal := (*StatusError)(nil)
	if !errors.As(err, &refusal) {
		return false
	}
	return refusal.Status == http.StatusNotFound && refusal.Message == "Not Found" ||
		refusal.Status == http.StatusMethodNotAllowed
}

// cause returns what broke an exchange, without the URL that net/http adds.
func cause(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errTimedOut
	case ctx.Err() != nil:
		return errInterrupted
	}
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// dataFailure describes a failed exchange with a signed URL. Only kinds of
// errors that are known to hold no URL are quoted.
func dataFailure(ctx context.Context, what string, err error) error {
	err = cause(ctx, err)
	switch {
	case errors.Is(err, errTimedOut), errors.Is(err, errInterrupted):
		return fmt.Errorf("%s %w", what, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s failed: %w", what, io.ErrUnexpectedEOF)
	}
	if network := (*net.OpError)(nil); errors.As(err, &network) {
		return fmt.Errorf("%s failed: %w", what, network)
	}
	return fmt.Errorf("%s failed", what)
}

// scrub takes the token and the given signed URLs out of a text that a server
// or proxy wrote: error pages like to repeat the request.
func (c *Client) scrub(text string, signed ...string) string {
	secrets := []string{c.token}
	for _, s := range signed {
		secrets = append(secrets, s, html.EscapeString(s))
		if u, err := url.Parse(s); err == nil && u.RawQuery != "" {
			secrets = append(secrets, u.RawQuery, html.EscapeString(u.RawQuery))
		}
	}
	for _, secret := range secrets {
		// A shorter one hides nothing, and would tear words apart.
		if len(secret) >= 8 {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	return text
}
