package fakestub

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

func (s *Stub) hasDrive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generation != Newest
}

func (s *Stub) driveManifest(r *http.Request, _ map[string]json.RawMessage) (any, *refusal) {
	if !s.hasDrive() {
		return nil, &refusal{http.StatusNotFound, "Not Found"}
	}
	q := r.URL.Query()
	links := q.Get("include_download_url")
	if links != "true" && links != "false" {
		return nil, s.invalid(r, "include_download_url %q", links)
	}
	if bad := s.checkQuery(r, url.Values{"prefix": {q.Get("prefix")}, "include_download_url": {links}}); bad != nil {
		return nil, bad
	}
	s.mu.Lock()
	entries := s.drive
	s.mu.Unlock()
	items := []any{}
	for _, e := range entries {
		if !strings.HasPrefix(e.name, q.Get("prefix")) {
			continue
		}
		item := map[string]any{"key": e.name, "size": s.sizeOf(e.name, e.data), "hash": "h", "mime_type": nil, "file_kind": "tool_file", "removed": nil, "download_url": nil}
		if links == "true" {
			item["download_url"] = s.sign(&transfer{route: "dl", data: e.data})
		}
		items = append(items, item)
	}
	return map[string]any{"items": items}, nil
}

func (s *Stub) driveCommit(r *http.Request, body map[string]json.RawMessage) (any, *refusal) {
	if !s.hasDrive() {
		return nil, &refusal{http.StatusNotFound, "Not Found"}
	}
	var items []pushed
	if bad := s.decode(r, body["items"], &items); bad != nil {
		return nil, bad
	}
	answer := []any{}
	for _, item := range items {
		if bad := s.apply(r, &s.drive, item, item.Key); bad != nil {
			return nil, bad
		}
		answer = append(answer, map[string]any{"key": item.Key})
	}
	return map[string]any{"items": answer}, nil
}
