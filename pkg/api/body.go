package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"shellctl/pkg/config"
	"shellctl/pkg/job"
	"shellctl/pkg/manager"
)

// decode reads a JSON body: unknown fields are ignored, and so is what follows
// the value.
func decode(w http.ResponseWriter, r *http.Request, into any) error {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, config.MaxFieldBytes)).Decode(into); err != nil {
		return invalidJSON()
	}
	return nil
}

func invalidJSON() error { return job.Errorf(job.CodeInvalidRequest, "Invalid JSON body") }

// waitBody is what wait, input and run have in common.
type waitBody struct {
	Offset    int64    `json:"offset"`
	Timeout   *float64 `json:"timeout"`
	Limit     int64    `json:"output_limit"`
	IdleFlush float64  `json:"idle_flush_seconds"`
}

// check bounds the numbers; a timeout that is absent or 0 becomes def.
func (b waitBody) check(def time.Duration) (manager.WaitOptions, error) {
	w := manager.WaitOptions{Offset: b.Offset, Timeout: def, Limit: config.DefaultOutputLimit, IdleFlush: config.DefaultIdleFlush}
	switch {
	case b.Offset < 0:
		return w, negative("offset")
	case b.Timeout != nil && *b.Timeout < 0:
		return w, negative("timeout")
	case b.Limit < 0:
		return w, negative("output_limit")
	case b.IdleFlush < 0:
		return w, negative("idle_flush_seconds")
	}
	if b.Timeout != nil && *b.Timeout > 0 {
		w.Timeout = config.Seconds(*b.Timeout, config.MaxTimeout)
	}
	if b.Limit > 0 {
		w.Limit = min(b.Limit, config.MaxOutputLimit)
	}
	if b.IdleFlush > 0 {
		w.IdleFlush = config.Seconds(b.IdleFlush, config.MaxTimeout)
	}
	return w, nil
}

type terminalBody struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

// check returns the size of a terminal; what is absent or 0 is the default.
func (b *terminalBody) check() (job.Terminal, error) {
	t := job.Terminal{Cols: config.DefaultCols, Rows: config.DefaultRows}
	if b == nil {
		return t, nil
	}
	for _, f := range []struct {
		name string
		n    int
		to   *uint16
	}{{"cols", b.Cols, &t.Cols}, {"rows", b.Rows, &t.Rows}} {
		if f.n < 0 || f.n > config.MaxTerminal {
			return t, job.Errorf(job.CodeValidation, "terminal.%s must be from 1 to %d", f.name, config.MaxTerminal)
		}
		if f.n > 0 {
			*f.to = uint16(f.n)
		}
	}
	return t, nil
}

// runBody is the body of run without the script.
type runBody struct {
	waitBody
	Cwd      string            `json:"cwd"`
	Env      map[string]string `json:"env"`
	Mode     string            `json:"mode"`
	Terminal *terminalBody     `json:"terminal"`
}

// check turns the body into a request.
func (b *runBody) check() (manager.Request, manager.WaitOptions, error) {
	r := manager.Request{Cwd: b.Cwd, Env: b.Env}
	b.Offset = 0 // not a field of run
	wait, err := b.waitBody.check(config.DefaultTimeout)
	if err != nil {
		return r, wait, err
	}
	if r.Mode, err = job.ParseMode(b.Mode); err != nil {
		return r, wait, err
	}
	if r.Terminal, err = b.Terminal.check(); err != nil {
		return r, wait, err
	}
	return r, wait, checkEnv(b.Env)
}

func checkEnv(env map[string]string) error {
	names := make([]string, 0, len(env))
	for name := range env {
		names = append(names, name)
	}
	slices.Sort(names) // the same error each time
	for _, name := range names {
		switch {
		case name == "":
			return job.Errorf(job.CodeValidation, "env names must be non-empty")
		case strings.ContainsRune(name, 0) || strings.ContainsRune(env[name], 0):
			return job.Errorf(job.CodeValidation, "env entries must not contain NUL")
		case strings.Contains(name, "="):
			return job.Errorf(job.CodeValidation, "env name must not contain '=': %q", name)
		}
	}
	return nil
}
