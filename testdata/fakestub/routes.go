package fakestub

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// handler answers one route. It returns the answer, or a refusal.
type handler func(r *http.Request, body map[string]json.RawMessage) (any, *refusal)

type refusal struct {
	status int
	detail any
}

func (s *Stub) routes() http.Handler {
	mux := http.NewServeMux()
	control := func(pattern, route string, keys []string, h handler) {
		mux.Handle(pattern, s.control(route, keys, h))
	}
	control("POST /agent-stub/connections", "connections", []string{"argv", "metadata"}, s.connections)
	control("POST /agent-stub/files/upload-request", "upload-request", []string{"filename", "mimetype"}, s.uploadRequest)
	control("POST /agent-stub/files/download-request", "download-request", nil, s.downloadRequest)
	control("GET /agent-stub/config/manifest", "manifest", nil, s.manifest)
	control("POST /agent-stub/config/push", "push", []string{"files", "skills"}, s.push)
	control("PATCH /agent-stub/config/env", "env", []string{"env_text"}, s.pushEnv)
	control("PUT /agent-stub/config/note", "note", []string{"note"}, s.pushNote)
	control("POST /agent-stub/knowledge/commands", "knowledge", nil, s.knowledge)
	control("GET /agent-stub/config/{kind}/{name}/pull", "old-pull", nil, s.oldPull)
	control("GET /agent-stub/drive/manifest", "drive-manifest", nil, s.driveManifest)
	control("POST /agent-stub/drive/commit", "drive-commit", []string{"items"}, s.driveCommit)
	mux.HandleFunc("POST /up/{id}", s.takeUpload)
	mux.HandleFunc("GET /dl/{id}", s.giveDownload)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.record(r)
		refuse(w, http.StatusNotFound, "Not Found")
	})
	return mux
}

func (s *Stub) record(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, r.Method+" "+strings.TrimPrefix(r.URL.RequestURI(), "/agent-stub"))
}

// control wraps a control plane route: failures, the exact keys of the body,
// the token, the encoding. Validation comes before authentication, as with the
// real service, except for knowledge.
func (s *Stub) control(route string, keys []string, h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.record(r)
		s.mu.Lock()
		mode := s.failures[route]
		s.mu.Unlock()
		if s.fail(w, r, mode) {
			return
		}
		body, bad := s.readBody(r, keys)
		if bad == nil && r.Header.Get("Authorization") != "Bearer "+Token {
			bad = &refusal{http.StatusUnauthorized, "invalid or missing Agent Stub authorization"}
		}
		var answer any
		if bad == nil {
			answer, bad = h(r, body)
		}
		if bad != nil {
			refuse(w, bad.status, bad.detail)
			return
		}
		if raw, ok := answer.([]byte); ok {
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Write(raw)
			return
		}
		writeJSON(w, http.StatusOK, answer)
	})
}

// readBody decodes a JSON body whose keys must be exactly keys, or any if keys
// is nil.
func (s *Stub) readBody(r *http.Request, keys []string) (map[string]json.RawMessage, *refusal) {
	if r.Method == http.MethodGet {
		if n, _ := io.Copy(io.Discard, r.Body); n > 0 {
			s.problem(r, "GET with a body")
		}
		return nil, nil
	}
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		s.problem(r, "Content-Type %q", got)
	}
	if r.ContentLength < 0 {
		s.problem(r, "no Content-Length")
	}
	var body map[string]json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, s.invalid(r, "body: %v", err)
	}
	if keys != nil {
		if bad := s.checkKeys(r, body, keys...); bad != nil {
			return nil, bad
		}
	}
	return body, nil
}

// checkKeys refuses a body whose keys are not exactly keys.
func (s *Stub) checkKeys(r *http.Request, body map[string]json.RawMessage, keys ...string) *refusal {
	var got []string
	for key := range body {
		got = append(got, key)
	}
	slices.Sort(got)
	want := slices.Sorted(slices.Values(keys))
	if !slices.Equal(got, want) {
		return s.invalid(r, "keys %v, want %v", got, want)
	}
	return nil
}

// invalid records a problem and makes the refusal of a failed validation.
func (s *Stub) invalid(r *http.Request, format string, args ...any) *refusal {
	s.problem(r, format, args...)
	return unprocessable(fmt.Sprintf(format, args...))
}

func unprocessable(msg string) *refusal {
	return &refusal{http.StatusUnprocessableEntity, []any{map[string]any{"type": "value_error", "loc": []string{"body"}, "msg": msg}}}
}

func refuse(w http.ResponseWriter, status int, detail any) {
	writeJSON(w, status, map[string]any{"detail": detail})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(data)
}

// checkQuery refuses any query but want.
func (s *Stub) checkQuery(r *http.Request, want url.Values) *refusal {
	if got := r.URL.RawQuery; got != want.Encode() {
		return s.invalid(r, "query %q, want %q", got, want.Encode())
	}
	return nil
}

// decode reads one value of a body.
func (s *Stub) decode(r *http.Request, raw json.RawMessage, v any) *refusal {
	if err := json.Unmarshal(raw, v); err != nil {
		return s.invalid(r, "value %s: %v", raw, err)
	}
	return nil
}
