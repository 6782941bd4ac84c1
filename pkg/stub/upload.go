package stub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// uploaded is what the data plane says about a new file.
type uploaded struct {
	id        string // or "" if the answer has none
	reference string // or "" if the answer has none
}

// requestUpload asks the stub for a URL that takes s.
func (c *Client) requestUpload(ctx context.Context, s *source, query url.Values) (string, error) {
	data, err := c.call(ctx, request{
		op:     "file upload request",
		method: http.MethodPost,
		path:   "/files/upload-request",
		query:  query,
		body:   map[string]any{"filename": s.name, "mimetype": s.mime},
	})
	if err != nil {
		return "", err
	}
	var answer struct {
		URL string `json:"upload_url"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return "", fmt.Errorf("parse upload response: %w", err)
	}
	if answer.URL == "" {
		return "", errors.New("signed file upload response is missing upload_url")
	}
	return answer.URL, nil
}

// exposeExpiry asks for a refusal that tells an expired token from a wrong one.
func exposeExpiry() url.Values { return url.Values{"expose_expiration": {"true"}} }

// post sends s to a signed URL and returns the answer. It closes s.
func (c *Client) post(ctx context.Context, target string, s *source) (uploaded, error) {
	defer s.content.Close()
	ctx, cancel := context.WithTimeout(ctx, c.limits.upload)
	defer cancel()
	body, err := newMultipartBody(s)
	if err != nil {
		return uploaded{}, fmt.Errorf("create multipart body: %w", err)
	}
	req, err := newSignedRequest(ctx, http.MethodPost, target, body)
	if err != nil {
		return uploaded{}, errors.New("create upload request: invalid signed upload URL")
	}
	req.ContentLength = body.length
	req.Header.Set("Content-Type", body.contentType)

	// The transport would wait for a source that does not deliver, such as a
	// FIFO, even after the time is up.
	defer context.AfterFunc(ctx, func() { body.Close() })()
	out := c.exchange(ctx, req, body)
	body.Close() // nobody reads the source any more when this returns
	if err := out.verdict(c, target); err != nil {
		return uploaded{}, err
	}
	return parseUploaded(out.answer)
}

// newSignedRequest makes a request to a URL that the stub handed out.
func newSignedRequest(ctx context.Context, method, target string, body io.Reader) (*http.Request, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("not an absolute http URL")
	}
	return http.NewRequestWithContext(ctx, method, target, body)
}

// uploadOutcome is everything that can be known after an upload.
type uploadOutcome struct {
	status    int // or 0 if there was no answer
	answer    []byte
	sendErr   error // no answer because of this
	sourceErr error // the source broke
	answerErr error // the answer broke
	complete  bool  // the last byte was taken before the answer came
}

func (c *Client) exchange(ctx context.Context, req *http.Request, body *multipartBody) uploadOutcome {
	var out uploadOutcome
	resp, err := c.uploads.Do(req)
	out.complete, out.sourceErr = body.progress()
	if err != nil {
		out.sendErr = dataFailure(ctx, "upload request", err)
		return out
	}
	defer resp.Body.Close()
	out.status = resp.StatusCode
	if out.refused() {
		out.answer = readSome(resp.Body)
		return out
	}
	out.answer, out.answerErr = readAtMost(resp.Body, maxUploadAnswer)
	if out.answerErr != nil && !errors.Is(out.answerErr, errTooLong) {
		out.answerErr = dataFailure(ctx, "read", out.answerErr)
	}
	return out
}

func (o uploadOutcome) refused() bool { return o.status != 0 && o.status/100 != 2 }

// verdict is the most telling error of an outcome, or nil. What the server says
// comes first: it may refuse an upload that it has not read.
func (o uploadOutcome) verdict(c *Client, target string) error {
	switch {
	case o.refused():
		return fmt.Errorf("upload failed with status %d: %s", o.status, c.scrub(string(o.answer), target))
	case o.sourceErr != nil:
		return fmt.Errorf("copy file content: %w", o.sourceErr)
	case o.sendErr != nil:
		return o.sendErr
	case !o.complete:
		return errors.New("upload request completed before multipart body was fully written")
	case errors.Is(o.answerErr, errTooLong):
		return fmt.Errorf("upload response exceeds %d bytes", maxUploadAnswer)
	case o.answerErr != nil:
		return fmt.Errorf("read upload response: %w", o.answerErr)
	}
	return nil
}

// parseUploaded takes what it knows from an answer, and leaves judging what is
// missing to the caller.
func parseUploaded(answer []byte) (uploaded, error) {
	var fields map[string]any
	if err := json.Unmarshal(answer, &fields); err != nil {
		return uploaded{}, fmt.Errorf("parse upload result: %w", err)
	}
	var u uploaded
	u.id, _ = fields["id"].(string)
	u.reference, _ = fields["reference"].(string)
	return u, nil
}
