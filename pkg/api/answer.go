package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"shellctl/pkg/job"
	"shellctl/pkg/manager"
)

// statusOf maps every code that a client can get to its HTTP status.
func statusOf(code job.Code) int {
	switch code {
	case job.CodeInvalidRequest, job.CodeInvalidCwd, job.CodeInvalidOffset, job.CodeArchiveMalformed:
		return http.StatusBadRequest
	case job.CodeUnauthorized:
		return http.StatusUnauthorized
	case job.CodeJobNotFound, job.CodeNotFound:
		return http.StatusNotFound
	case job.CodeMethodNotAllowed:
		return http.StatusMethodNotAllowed
	case job.CodeJobRunning, job.CodeJobNotRunning, job.CodeInputUnsupported, job.CodeInputBlocked,
		job.CodeSnapshotBusy, job.CodeIdempotencyConflict:
		return http.StatusConflict
	case job.CodeValidation, job.CodeInputLineTooLong:
		return http.StatusUnprocessableEntity
	case job.CodeRequestTimeout:
		return http.StatusRequestTimeout
	case job.CodeTooManyJobs, job.CodeTooManyFiles:
		return http.StatusServiceUnavailable
	case job.CodeDiskFull:
		return http.StatusInsufficientStorage
	}
	return http.StatusInternalServerError
}

// fail answers with the error envelope. What is not meant for a client becomes
// an internal error, which is logged here and nowhere else.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return // nobody is there to read an answer
	}
	if late := stalled(w, r); late != nil {
		err = late
	}
	code, message := explain(err)
	status := statusOf(code)
	if status == http.StatusInternalServerError || status == http.StatusInsufficientStorage {
		a.log.Error("a request failed", "method", r.Method, "route", r.Pattern, "job_id", r.PathValue("id"), "error", err)
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	write(w, status, envelope(code, message))
}

// retryAfter is in seconds: what the server lacks comes back when a job ends.
const retryAfter = "1"

type errorBody struct {
	Error errorView `json:"error"`
}

type errorView struct {
	Code    job.Code `json:"code"`
	Message string   `json:"message"`
}

func envelope(code job.Code, message string) errorBody {
	return errorBody{errorView{code, message}}
}

// write sends a JSON body, which ends with a line feed.
func write(w http.ResponseWriter, status int, body any) {
	begin(w, status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone, if it fails
}

// begin begins an answer that has a JSON body.
func begin(w http.ResponseWriter, status int) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Del("X-Content-Type-Options")
	w.WriteHeader(status)
}

// The keys of the answers are the contract's; clients refuse any other.

type viewBody struct {
	ID       job.ID     `json:"job_id"`
	Status   job.Status `json:"status"`
	Done     bool       `json:"done"`
	ExitCode *int       `json:"exit_code"`
	Created  timestamp  `json:"created_at"`
	Started  timestamp  `json:"started_at"`
	Ended    timestamp  `json:"ended_at"`
	Offset   int64      `json:"offset"`
}

func writeView(w http.ResponseWriter, v manager.View) {
	write(w, http.StatusOK, viewBody{
		ID: v.ID, Status: v.Status, Done: v.Status.Terminal(), ExitCode: v.ExitCode,
		Created: timestamp(v.Created), Started: timestamp(v.Started), Ended: timestamp(v.Ended), Offset: v.Size,
	})
}

type listBody struct {
	Jobs []infoBody `json:"jobs"`
}

type infoBody struct {
	ID      job.ID     `json:"job_id"`
	Status  job.Status `json:"status"`
	Created timestamp  `json:"created_at"`
	Started timestamp  `json:"started_at,omitzero"`
	Ended   timestamp  `json:"ended_at,omitzero"`
}

type deleteBody struct {
	ID      job.ID `json:"job_id"`
	Deleted bool   `json:"deleted"`
}

// timestamp is a time as clients see it, null while it is not known.
type timestamp time.Time

// IsZero is for omitzero.
func (t timestamp) IsZero() bool { return time.Time(t).IsZero() }

// MarshalJSON implements [json.Marshaler].
func (t timestamp) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(time.Time(t).UTC().Format(job.TimeFormat))
}
