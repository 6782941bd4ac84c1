package api

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"shellctl/pkg/job"
)

// Clients that stop: the deadlines of a connection are set before each piece
// that is read or written and count from there. So whoever makes progress has
// all the time, and a wait has none to lose.

// piece is how many bytes of an answer a client has to take between two deadlines.
const piece = 16 << 10

// filePiece is the same for a file, which the kernel sends.
const filePiece = 128 << 10

// BoundClients sets how long a client may neither send a byte of its body nor
// take one of its answer; 0 is for ever. Call it before the first request.
func (a *API) BoundClients(stall time.Duration) { a.stall = stall }

// guard puts the bounds on a request. The handlers of snapshots, whose bodies
// and answers have no bound of size, have deadlines of their own.
func (a *API) guard(w http.ResponseWriter, r *http.Request, pattern string) http.ResponseWriter {
	if a.stall <= 0 || strings.Contains(pattern, " /v1/snapshot/") {
		return w
	}
	g := &guarded{ResponseWriter: w, ctl: http.NewResponseController(w), stall: a.stall}
	if r.Body != nil && r.Body != http.NoBody {
		g.body = &guardedBody{ReadCloser: r.Body, ctl: g.ctl, stall: a.stall}
		r.Body = g.body
	}
	return g
}

// Errors of setting a deadline are left out below: it fails on a connection that
// is closed, as what follows will find, and on writers that have none.

// guarded is an answer whose client has to take it.
type guarded struct {
	http.ResponseWriter
	ctl   *http.ResponseController
	stall time.Duration
	body  *guardedBody // nil: the request has none
}

// Unwrap is for [http.ResponseController].
func (g *guarded) Unwrap() http.ResponseWriter { return g.ResponseWriter }

func (g *guarded) Write(p []byte) (int, error) {
	n := 0
	for len(p) > 0 {
		g.arm()
		k, err := g.ResponseWriter.Write(p[:min(len(p), piece)])
		n += k
		if err != nil {
			return n, err
		}
		p = p[k:]
	}
	return n, nil
}

// ReadFrom lets the kernel send what a limited reader, as [http.ServeContent]
// has one, reads from a file.
func (g *guarded) ReadFrom(src io.Reader) (int64, error) {
	lr, limited := src.(*io.LimitedReader)
	to, direct := g.ResponseWriter.(io.ReaderFrom)
	if !limited || !direct {
		return io.Copy(struct{ io.Writer }{g}, src)
	}
	var n int64
	for lr.N > 0 {
		g.arm()
		part := io.LimitedReader{R: lr.R, N: min(lr.N, filePiece)}
		k, err := to.ReadFrom(&part)
		n += k
		lr.N -= k
		if err != nil || k == 0 {
			return n, err
		}
	}
	return n, nil
}

// arm begins the time for the next piece. What is left of the body is read
// before the answer goes out, and has the same time.
func (g *guarded) arm() {
	at := time.Now().Add(g.stall)
	if g.body != nil && !g.body.ended {
		_ = g.ctl.SetReadDeadline(at)
		at = at.Add(g.stall)
	}
	_ = g.ctl.SetWriteDeadline(at)
}

// guardedBody is a body that has to come.
type guardedBody struct {
	io.ReadCloser
	ctl     *http.ResponseController
	stall   time.Duration
	ended   bool // nothing more will come
	stalled bool // that is why
}

func (b *guardedBody) Read(p []byte) (int, error) {
	if b.ended {
		return b.ReadCloser.Read(p)
	}
	_ = b.ctl.SetReadDeadline(time.Now().Add(b.stall))
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.ended, b.stalled = true, errors.Is(err, os.ErrDeadlineExceeded)
	}
	if b.ended && !b.stalled {
		// The server now watches the connection to see the client go. After a
		// stall the deadline stays, so that nobody waits for the rest again.
		_ = b.ctl.SetReadDeadline(time.Time{})
	}
	return n, err
}

// stalled returns the error for a request whose body did not come, else nil.
func stalled(w http.ResponseWriter, r *http.Request) error {
	b, ok := r.Body.(*guardedBody)
	if !ok || !b.stalled {
		return nil
	}
	w.Header().Set("Connection", "close")
	return job.Errorf(job.CodeRequestTimeout, "no byte of the request body came for %v", b.stall)
}
