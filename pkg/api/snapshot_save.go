package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"time"

	"shellctl/pkg/config"
	"shellctl/pkg/job"
	"shellctl/pkg/snapshot"
)

// Trailers of a save. A client sees the first three announced; the others come
// without, so that the announcement stays what clients know.
const (
	trailerStatus  = "X-Snapshot-Status"
	trailerSHA256  = "X-Snapshot-Sha256"
	trailerBytes   = "X-Snapshot-Bytes"
	trailerSkipped = http.TrailerPrefix + "X-Snapshot-Skipped"
	trailerChanged = http.TrailerPrefix + "X-Snapshot-Changed"
)

// save streams the archive of the home. Only the trailers say that it is whole:
// a failure before the first byte is an ordinary error, a later one breaks the
// connection.
func (s *snapshots) save(w http.ResponseWriter, r *http.Request) error {
	rc := http.NewResponseController(w)
	excludes, err := s.readExcludes(rc, r.Body)
	if err != nil {
		return err
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.gate.Unlock()
	op := s.begin(r.Context(), rc.SetWriteDeadline)
	defer op.end()
	home, err := homeDir()
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Trailer", trailerStatus+", "+trailerSHA256+", "+trailerBytes)
	out := &archiveWriter{w: w, sum: sha256.New()}
	stats, err := snapshot.Save(op.ctx, op.writer(out), home, snapshot.SaveOptions{Excludes: excludes, StateDir: s.stateDir})
	if err == nil {
		_, err = op.wait(func([]byte) (int, error) { return 0, rc.Flush() }, nil)
	}
	op.end()
	// The trailers leave after this function: they get a deadline of their own,
	// which the connection loses with its next request.
	_ = rc.SetWriteDeadline(time.Now().Add(trailerTime))
	if err != nil {
		return s.failSave(rc, w, out, err)
	}
	h.Set(trailerStatus, "ok")
	h.Set(trailerSHA256, hex.EncodeToString(out.sum.Sum(nil)))
	h.Set(trailerBytes, strconv.FormatInt(out.n, 10))
	h.Set(trailerSkipped, strconv.FormatInt(stats.Skipped, 10))
	h.Set(trailerChanged, strconv.FormatInt(stats.Changed, 10))
	return nil
}

// trailerTime is for what follows the archive: a few hundred bytes.
const trailerTime = 10 * time.Second

// failSave returns the error if the answer can still be one.
func (s *snapshots) failSave(rc *http.ResponseController, w http.ResponseWriter, out *archiveWriter, err error) error {
	if !out.begun {
		w.Header().Del("Trailer")
		return err
	}
	s.log.Warn("a save was cut short", "bytes", out.n, "error", err)
	// The server would send what it holds and read what the client sends.
	_ = rc.SetWriteDeadline(past)
	_ = rc.SetReadDeadline(past)
	panic(http.ErrAbortHandler)
}

// archiveWriter counts and digests what is sent.
type archiveWriter struct {
	w     io.Writer
	sum   hash.Hash
	n     int64
	begun bool
}

func (a *archiveWriter) Write(p []byte) (int, error) {
	a.begun = true
	n, err := a.w.Write(p)
	a.sum.Write(p[:n])
	a.n += int64(n)
	return n, err
}

// readExcludes reads the body of a save, which may be empty, within the time
// that a save may take. The gate is not held meanwhile.
func (s *snapshots) readExcludes(rc *http.ResponseController, body io.Reader) (*snapshot.Excludes, error) {
	_ = rc.SetReadDeadline(time.Now().Add(s.cfg.Timeout))
	text, err := readBody(body)
	if err != nil {
		_ = rc.SetReadDeadline(time.Now().Add(drainTime))
		return nil, job.Errorf(job.CodeInvalidRequest, "read body: %v", err)
	}
	_ = rc.SetReadDeadline(time.Time{})
	return decodeExcludes(text)
}

// readBody returns the part of a body that counts. It reads to the end, so that
// nothing later waits for the client to send the rest.
func readBody(body io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(body, config.MaxSaveBody))
	if err != nil {
		return nil, err
	}
	switch _, err := io.CopyN(io.Discard, body, config.MaxSaveRest); err {
	case io.EOF:
		return text, nil
	case nil:
		return nil, fmt.Errorf("more than %d bytes", config.MaxSaveBody+config.MaxSaveRest)
	default:
		return nil, err
	}
}

// SaveRequest is the body of a save. Clients read its name in error messages.
type SaveRequest struct {
	Excludes []string `json:"excludes"`
}

func decodeExcludes(text []byte) (*snapshot.Excludes, error) {
	var req SaveRequest
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&req); err != nil && err != io.EOF {
		return nil, job.Errorf(job.CodeInvalidRequest, "%v", err)
	}
	return snapshot.CompileExcludes(req.Excludes)
}
