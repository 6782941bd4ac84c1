// Package api is the HTTP face of a server: routes, authentication, decoding,
// validation, encoding, and the mapping of error codes to HTTP statuses. It
// knows no process.
package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"shellctl/pkg/job"
	"shellctl/pkg/manager"
)

// Jobs is what the API needs of the jobs of a server.
type Jobs interface {
	Spill() (*os.File, error)
	Run(ctx context.Context, r manager.Request, w manager.WaitOptions) (manager.Result, error)
	Wait(ctx context.Context, id job.ID, w manager.WaitOptions) (manager.Result, error)
	Tail(ctx context.Context, id job.ID, limit int64) (manager.Result, error)
	Input(ctx context.Context, id job.ID, text string, w manager.WaitOptions) (manager.Result, error)
	Resize(ctx context.Context, id job.ID, t job.Terminal) (manager.View, error)
	Status(ctx context.Context, id job.ID) (manager.View, error)
	List(ctx context.Context, status job.Status, limit int) ([]manager.View, error)
	Terminate(ctx context.Context, id job.ID, grace time.Duration) (manager.View, error)
	Delete(ctx context.Context, id job.ID, force bool, grace time.Duration) error
	OpenStream(ctx context.Context, id job.ID, stderr bool) (*os.File, error)
}

// handler answers one route. An error becomes the error envelope.
type handler func(w http.ResponseWriter, r *http.Request) error

// API is the handler of all routes.
type API struct {
	jobs  Jobs
	token [sha256.Size]byte // of the Authorization header that is let in
	open  bool              // no token: everyone is let in
	log   *slog.Logger
	mux   *http.ServeMux

	snapshots *snapshots    // nil: not served
	stall     time.Duration // of a client; 0: any
}

// New returns the handler of all routes. An empty token lets everyone in.
func New(jobs Jobs, token string, log *slog.Logger) *API {
	a := &API{jobs: jobs, open: token == "", token: sha256.Sum256([]byte("Bearer " + token)), log: log, mux: http.NewServeMux()}
	a.handle("GET /healthz", a.health)
	for pattern, h := range map[string]handler{
		"POST /v1/jobs/run":            a.run,
		"GET /v1/jobs":                 a.list,
		"GET /v1/jobs/{id}":            a.status,
		"DELETE /v1/jobs/{id}":         a.delete,
		"POST /v1/jobs/{id}/wait":      a.wait,
		"POST /v1/jobs/{id}/input":     a.input,
		"POST /v1/jobs/{id}/terminal":  a.resize,
		"POST /v1/jobs/{id}/terminate": a.terminate,
		"GET /v1/jobs/{id}/log/tail":   a.tail,
		"GET /v1/jobs/{id}/log/raw":    a.raw,
	} {
		a.handle(pattern, a.authorized(h))
	}
	return a
}

// handle binds a pattern to a handler.
func (a *API) handle(pattern string, h handler) {
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			a.fail(w, r, err)
		}
	})
}

// authorized lets a request pass whose header is exactly "Bearer TOKEN". This is
// the only place that decides it.
func (a *API) authorized(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if !a.open && subtle.ConstantTimeCompare(got[:], a.token[:]) != 1 {
			return job.Errorf(job.CodeUnauthorized, "Missing or invalid bearer token")
		}
		return h(w, r)
	}
}

// ServeHTTP answers one request. A panic of a handler answers 500 and the
// server goes on.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if v == http.ErrAbortHandler {
			panic(v) // meant for the server: it cuts the connection
		}
		a.log.Error("a handler panicked", "path", r.URL.Path, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		write(w, http.StatusInternalServerError, envelope(job.CodeInternalPanic, fmt.Sprintf("internal server error: %v", v)))
	}()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // of a save before it on the connection
	_, pattern := a.mux.Handler(r)
	w = a.guard(w, r, pattern)
	if pattern == "" {
		w = &unrouted{ResponseWriter: w}
	}
	a.mux.ServeHTTP(w, r)
}

// unrouted turns the mux's own plain-text answers into the error envelope.
// Redirects to a cleaned path pass.
type unrouted struct {
	http.ResponseWriter
	replaced bool
}

func (u *unrouted) WriteHeader(status int) {
	switch status {
	case http.StatusNotFound:
		u.replaced = true
		write(u.ResponseWriter, status, envelope(job.CodeNotFound, "no such route"))
	case http.StatusMethodNotAllowed:
		u.replaced = true
		write(u.ResponseWriter, status, envelope(job.CodeMethodNotAllowed, "method not allowed here; see the Allow header"))
	default:
		u.ResponseWriter.WriteHeader(status)
	}
}

func (u *unrouted) Write(p []byte) (int, error) {
	if u.replaced {
		return len(p), nil
	}
	return u.ResponseWriter.Write(p)
}

// health is answered also while the jobs are still being recovered.
func (a *API) health(w http.ResponseWriter, _ *http.Request) error {
	write(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}
