package fakestub

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
)

const refPrefix = "dify-file-ref:"

// Reference is the canonical reference of a record.
func Reference(id string) string {
	return refPrefix + base64.URLEncoding.EncodeToString(fmt.Appendf(nil, `{"record_id":%q}`, id))
}

// record returns the id in a canonical reference, or "".
func recordOf(reference string) string {
	data, err := base64.URLEncoding.Strict().DecodeString(strings.TrimPrefix(reference, refPrefix))
	if err != nil || !strings.HasPrefix(reference, refPrefix) {
		return ""
	}
	var ref struct {
		ID string `json:"record_id"`
	}
	json.Unmarshal(data, &ref)
	return ref.ID
}

func (s *Stub) connections(r *http.Request, body map[string]json.RawMessage) (any, *refusal) {
	var argv []string
	var metadata map[string]any
	if bad := s.decode(r, body["argv"], &argv); bad != nil || argv == nil {
		return nil, s.invalid(r, "argv %s", body["argv"])
	}
	if bad := s.decode(r, body["metadata"], &metadata); bad != nil {
		return nil, bad
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf("argv %q", argv))
	return map[string]any{"connection_id": s.newID(), "status": "connected"}, nil
}

func (s *Stub) uploadRequest(r *http.Request, body map[string]json.RawMessage) (any, *refusal) {
	var t transfer
	if bad := s.decode(r, body["filename"], &t.name); bad != nil {
		return nil, bad
	}
	if bad := s.decode(r, body["mimetype"], &t.mime); bad != nil {
		return nil, bad
	}
	if q := r.URL.RawQuery; q != "" && q != "expose_expiration=true" {
		s.problem(r, "query %q", q)
	}
	t.route = "up"
	return map[string]any{"upload_url": s.sign(&t)}, nil
}

// sign makes a signed URL of a transfer.
func (s *Stub) sign(t *transfer) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.newID()
	s.transfers[id] = t
	query := url.Values{"timestamp": {"1"}, "nonce": {"n"}, "sign": {"secret-signature-" + id}}
	return s.server.URL + "/" + t.route + "/" + id + "?" + query.Encode()
}

// transferOf finds the transfer of a signed URL and whether its signature holds.
func (s *Stub) transferOf(r *http.Request) (t *transfer, mode string, ok bool) {
	id := r.PathValue("id")
	if got := r.Header.Get("Authorization"); got != "" {
		s.problem(r, "data plane request with Authorization %q", got)
	}
	if got := r.Header.Get("Referer"); got != "" {
		s.problem(r, "Referer %q", got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	route, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	s.calls = append(s.calls, r.Method+" /"+route)
	t = s.transfers[id]
	return t, s.failures[route], t != nil && r.URL.Query().Get("sign") == "secret-signature-"+id
}

func (s *Stub) takeUpload(w http.ResponseWriter, r *http.Request) {
	t, mode, ok := s.transferOf(r)
	if strings.HasPrefix(mode, "201-early") {
		s.refuseEarly(w, http.StatusCreated)
		return
	}
	if mode == "oversize" {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte(`{"id":"` + strings.Repeat("x", 1<<20) + `"}`))
		return
	}
	if s.fail(w, r, mode) {
		return
	}
	if !ok || t.route != "up" {
		http.Error(w, "bad signature", http.StatusForbidden)
		return
	}
	data, err := s.readPart(r, t)
	if err != nil {
		s.problem(r, "%v", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	f := s.store(t.name, t.mime, data)
	s.mu.Unlock()
	writeJSON(w, http.StatusCreated, map[string]any{
		"id": f.id, "reference": Reference(f.id), "name": f.name, "size": len(data), "mime_type": f.mime,
	})
}

// readPart reads the only part of a form, whose name and type must be those
// that the signature covers.
func (s *Stub) readPart(r *http.Request, t *transfer) ([]byte, error) {
	if r.ContentLength < 0 {
		s.mu.Lock()
		s.calls = append(s.calls, "chunked")
		s.mu.Unlock()
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return nil, fmt.Errorf("content type %q", r.Header.Get("Content-Type"))
	}
	form := multipart.NewReader(r.Body, params["boundary"])
	part, err := form.NextRawPart()
	if err != nil {
		return nil, err
	}
	_, disposition, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil || part.FormName() != "file" || len(part.Header) != 2 {
		return nil, fmt.Errorf("part header %v", part.Header)
	}
	if disposition["filename"] != t.name || part.Header.Get("Content-Type") != t.mime {
		return nil, fmt.Errorf("part is %q %q, the request said %q %q",
			disposition["filename"], part.Header.Get("Content-Type"), t.name, t.mime)
	}
	data, err := io.ReadAll(part)
	if err != nil {
		return nil, err
	}
	if _, err := form.NextRawPart(); err != io.EOF {
		return nil, fmt.Errorf("a second part: %v", err)
	}
	return data, nil
}

func (s *Stub) giveDownload(w http.ResponseWriter, r *http.Request) {
	t, mode, ok := s.transferOf(r)
	if mode == "short" {
		w.Write(t.data[:len(t.data)/2])
		return
	}
	if s.fail(w, r, mode) {
		return
	}
	if !ok || t.route != "dl" {
		http.Error(w, "bad signature", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Write(t.data)
}

func (s *Stub) downloadRequest(r *http.Request, body map[string]json.RawMessage) (any, *refusal) {
	s.mu.Lock()
	generation := s.generation
	s.mu.Unlock()
	key := "for_frontend"
	if generation != Newest {
		key = "for_external"
	}
	_, config := body["config"]
	if _, ok := body[key]; !ok || config && generation != Newest {
		if generation == Unaware {
			return nil, &refusal{http.StatusNotFound, "Not Found"}
		}
		if generation == Drive {
			return nil, unprocessable("extra keys") // an older server; no fault of the client
		}
	}
	source := "file"
	if config {
		source = "config"
	}
	if bad := s.checkKeys(r, body, source, key); bad != nil {
		return nil, bad
	}
	var frontend bool
	if bad := s.decode(r, body[key], &frontend); bad != nil {
		return nil, bad
	}
	if config {
		if frontend {
			return nil, s.invalid(r, "config for the frontend")
		}
		return s.grantConfig(r, body["config"])
	}
	return s.grantFile(r, body["file"], frontend)
}

func (s *Stub) grantFile(r *http.Request, raw json.RawMessage, frontend bool) (any, *refusal) {
	var mapping map[string]string
	if bad := s.decode(r, raw, &mapping); bad != nil {
		return nil, bad
	}
	method := mapping["transfer_method"]
	if method == "remote_url" {
		if len(mapping) != 2 || mapping["url"] == "" {
			return nil, s.invalid(r, "mapping %v", mapping)
		}
		return map[string]any{
			"filename": mapping["url"][strings.LastIndex(mapping["url"], "/")+1:], "mime_type": nil, "size": 1,
			"download_url": mapping["url"],
		}, nil
	}
	if len(mapping) != 2 || mapping["reference"] == "" {
		return nil, s.invalid(r, "mapping %v", mapping)
	}
	s.mu.Lock()
	f := s.files[recordOf(mapping["reference"])]
	relative := s.relative
	s.mu.Unlock()
	if recordOf(mapping["reference"]) == "" {
		return nil, unprocessable("reference is not canonical")
	}
	if f == nil {
		return nil, &refusal{http.StatusNotFound, map[string]any{"code": "file_not_found", "message": "no such file"}}
	}
	link := s.sign(&transfer{route: "dl", data: f.data})
	if frontend && relative {
		link = "/files/tools/" + f.id + "?a=1&sign=<x>"
	}
	return map[string]any{"filename": f.name, "mime_type": f.mime, "size": s.sizeOf(f.name, f.data), "download_url": link}, nil
}
