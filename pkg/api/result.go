package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"

	"shellctl/pkg/job"
	"shellctl/pkg/manager"
)

// resultHead and resultTail are what stands before and behind the output.
type resultHead struct {
	ID         job.ID     `json:"job_id"`
	Done       bool       `json:"done"`
	Status     job.Status `json:"status"`
	ExitCode   *int       `json:"exit_code"`
	OutputPath string     `json:"output_path"`
}

type resultTail struct {
	Offset    int64 `json:"offset"`
	Truncated bool  `json:"truncated"`
}

// writeResult sends a job with its window. A window of control characters is
// six times as long in JSON, and a client may be slow to take it; so it passes
// through a small buffer, and none of it is held for the client.
func writeResult(w http.ResponseWriter, r manager.Result) error {
	defer r.Close()
	a := resultWriter{w: w, buf: buffers.Get().(*bytes.Buffer)}
	defer buffers.Put(a.buf)
	a.buf.Reset()
	a.json = json.NewEncoder(a.buf)
	a.open(resultHead{r.ID, r.Status.Terminal(), r.Status, r.ExitCode, r.OutputPath})
	err := r.WriteText(&a)
	switch {
	case a.gone != nil:
		return nil // nobody is there to read the rest
	case err != nil && a.begun:
		panic(http.ErrAbortHandler) // so that half an answer is not taken for one
	case err != nil:
		return err
	}
	a.close(resultTail{r.Window.Offset, r.Window.More})
	return nil
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// resultWriter turns the text that is written to it into the output.
type resultWriter struct {
	w     http.ResponseWriter
	buf   *bytes.Buffer // what is not sent yet
	json  *json.Encoder // to buf
	begun bool          // something was sent
	gone  error         // the client is, it was not taken
}

// Encoding can not fail below: a buffer takes all, and no type is a strange one.

func (a *resultWriter) open(head resultHead) {
	_ = a.json.Encode(head)
	a.buf.Truncate(a.buf.Len() - len("}\n"))
	a.buf.WriteString(`,"output":"`)
}

// Write adds text, which splits no character.
func (a *resultWriter) Write(p []byte) (int, error) {
	at := a.buf.Len()
	_ = a.json.Encode(string(p))
	quoted := a.buf.Bytes()[at:]
	n := copy(quoted, quoted[1:len(quoted)-len("\"\n")])
	a.buf.Truncate(at + n)
	if a.buf.Len() >= piece {
		a.flush()
	}
	return len(p), a.gone
}

func (a *resultWriter) close(tail resultTail) {
	a.buf.WriteByte('"')
	at := a.buf.Len()
	_ = a.json.Encode(tail)
	a.buf.Bytes()[at] = ',' // for its brace
	a.flush()
}

func (a *resultWriter) flush() {
	if !a.begun {
		a.begun = true
		begin(a.w, http.StatusOK)
	}
	_, a.gone = a.buf.WriteTo(a.w)
}
