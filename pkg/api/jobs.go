package api

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"shellctl/pkg/config"
	"shellctl/pkg/job"
)

func (a *API) run(w http.ResponseWriter, r *http.Request) error {
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxKey {
		return job.Errorf(job.CodeValidation, "Idempotency-Key is longer than %d bytes", maxKey)
	}
	body, script, err := decodeRun(r.Body, a.jobs.Spill)
	if err != nil {
		return err
	}
	req, wait, err := body.check()
	if err != nil {
		script.Discard()
		return err
	}
	req.Script, req.Key = script, key
	res, err := a.jobs.Run(r.Context(), req, wait)
	if err != nil {
		return err
	}
	return writeResult(w, res)
}

// maxKey bounds an idempotency key.
const maxKey = 256

func (a *API) wait(w http.ResponseWriter, r *http.Request) error {
	var b waitBody
	if err := decode(w, r, &b); err != nil {
		return err
	}
	opt, err := b.check(0)
	if err != nil {
		return err
	}
	res, err := a.jobs.Wait(r.Context(), jobID(r), opt)
	if err != nil {
		return err
	}
	return writeResult(w, res)
}

func (a *API) input(w http.ResponseWriter, r *http.Request) error {
	var b struct {
		waitBody
		Text string `json:"text"`
	}
	if err := decode(w, r, &b); err != nil {
		return err
	}
	opt, err := b.check(config.DefaultTimeout)
	if err != nil {
		return err
	}
	if b.Text == "" {
		return job.Errorf(job.CodeInvalidRequest, "text is required")
	}
	res, err := a.jobs.Input(r.Context(), jobID(r), b.Text, opt)
	if err != nil {
		return err
	}
	return writeResult(w, res)
}

func (a *API) resize(w http.ResponseWriter, r *http.Request) error {
	var b terminalBody
	if err := decode(w, r, &b); err != nil {
		return err
	}
	t, err := b.check()
	if err != nil {
		return err
	}
	v, err := a.jobs.Resize(r.Context(), jobID(r), t)
	if err != nil {
		return err
	}
	writeView(w, v)
	return nil
}

func (a *API) tail(w http.ResponseWriter, r *http.Request) error {
	limit := queryInt(r.URL.Query(), "output_limit", config.DefaultOutputLimit, config.MaxOutputLimit)
	res, err := a.jobs.Tail(r.Context(), jobID(r), int64(limit))
	if err != nil {
		return err
	}
	return writeResult(w, res)
}

// raw sends the bytes of an output as they are, or the range asked for.
func (a *API) raw(w http.ResponseWriter, r *http.Request) error {
	stream := r.URL.Query().Get("stream")
	if stream != "" && stream != "stdout" && stream != "stderr" {
		return job.Errorf(job.CodeValidation, "stream must be stdout or stderr")
	}
	f, err := a.jobs.OpenStream(r.Context(), jobID(r), stream == "stderr")
	if err != nil {
		return err
	}
	defer f.Close() // only read from
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, f)
	return nil
}

func (a *API) status(w http.ResponseWriter, r *http.Request) error {
	v, err := a.jobs.Status(r.Context(), jobID(r))
	if err != nil {
		return err
	}
	writeView(w, v)
	return nil
}

func (a *API) list(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	limit := queryInt(q, "limit", config.DefaultListLimit, config.MaxListLimit)
	views, err := a.jobs.List(r.Context(), job.Status(q.Get("status")), limit)
	if err != nil {
		return err
	}
	body := listBody{Jobs: make([]infoBody, 0, len(views))}
	for _, v := range views {
		body.Jobs = append(body.Jobs, infoBody{v.ID, v.Status, timestamp(v.Created), timestamp(v.Started), timestamp(v.Ended)})
	}
	write(w, http.StatusOK, body)
	return nil
}

func (a *API) terminate(w http.ResponseWriter, r *http.Request) error {
	var b struct {
		Grace *float64 `json:"grace_seconds"`
	}
	// A body that can not be decoded counts as empty: this call is for ending
	// a job, and the default grace is safe.
	if err := decode(w, r, &b); err != nil {
		b.Grace = nil
	}
	grace := config.DefaultGrace
	if b.Grace != nil {
		if *b.Grace < 0 {
			return negative("grace_seconds")
		}
		grace = config.Seconds(*b.Grace, config.MaxGrace)
	}
	v, err := a.jobs.Terminate(r.Context(), jobID(r), grace)
	if err != nil {
		return err
	}
	writeView(w, v)
	return nil
}

func (a *API) delete(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	grace := config.DefaultGrace
	if f, err := strconv.ParseFloat(q.Get("grace_seconds"), 64); err == nil && !math.IsNaN(f) {
		grace = config.Seconds(max(0, f), config.MaxGrace)
	}
	id := jobID(r)
	if err := a.jobs.Delete(r.Context(), id, q.Get("force") == "true", grace); err != nil {
		return err
	}
	write(w, http.StatusOK, deleteBody{id, true})
	return nil
}

func jobID(r *http.Request) job.ID { return job.ID(r.PathValue("id")) }

// queryInt reads a number of the query; one that is absent, unreadable or not
// positive is the default, one above max is max.
func queryInt(q url.Values, name string, def, max int) int {
	n, err := strconv.Atoi(q.Get(name))
	if err != nil && !errors.Is(err, strconv.ErrRange) || n <= 0 { // out of range, n is the nearest number
		return def
	}
	return min(n, max)
}

func negative(field string) error {
	return job.Errorf(job.CodeValidation, "%s must not be negative", field)
}
