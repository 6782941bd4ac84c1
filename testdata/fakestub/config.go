package fakestub

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

func (s *Stub) manifest(*http.Request, map[string]json.RawMessage) (any, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.currentManifest(), nil
}

// currentManifest is the manifest. The caller holds mu.
func (s *Stub) currentManifest() any {
	list := func(entries []*entry, description bool) map[string]any {
		items := []any{}
		for _, e := range entries {
			item := map[string]any{"name": e.name, "size": len(e.data), "hash": nil, "mime_type": nil}
			if description {
				item["description"] = "about <" + e.name + ">"
			}
			items = append(items, item)
		}
		return map[string]any{"items": items}
	}
	return map[string]any{
		"agent_id":       "agent-1",
		"config_version": map[string]any{"id": "v1", "kind": "build_draft", "writable": true},
		"skills":         list(s.skills, true),
		"files":          list(s.confFiles, false),
		"env_keys":       s.envKeys(),
		"note":           s.note,
	}
}

// envKeys lists the variables that were set. The caller holds mu.
func (s *Stub) envKeys() []string {
	keys := []string{}
	for line := range strings.Lines(s.envText) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && value != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

func (s *Stub) grantConfig(r *http.Request, raw json.RawMessage) (any, *refusal) {
	var config map[string]string
	if bad := s.decode(r, raw, &config); bad != nil {
		return nil, bad
	}
	if len(config) != 2 || config["name"] == "" {
		return nil, s.invalid(r, "config %v", config)
	}
	e, bad := s.configEntry(config["kind"], config["name"])
	if bad != nil {
		return nil, bad
	}
	return map[string]any{
		"filename": e.name, "mime_type": nil, "size": s.sizeOf(e.name, e.data),
		"download_url": s.sign(&transfer{route: "dl", data: e.data}),
	}, nil
}

func (s *Stub) configEntry(kind, name string) (*entry, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.confFiles
	if kind == "skill" {
		list = s.skills
	}
	for _, e := range list {
		if e.name == name {
			return e, nil
		}
	}
	return nil, &refusal{http.StatusNotFound, map[string]any{
		"code": "config_" + kind + "_not_found", "message": "no such " + kind + ": " + name,
	}}
}

func (s *Stub) oldPull(r *http.Request, _ map[string]json.RawMessage) (any, *refusal) {
	s.mu.Lock()
	generation := s.generation
	s.mu.Unlock()
	if generation == Newest {
		return nil, &refusal{http.StatusNotFound, "Not Found"}
	}
	e, bad := s.configEntry(strings.TrimSuffix(r.PathValue("kind"), "s"), r.PathValue("name"))
	if bad != nil {
		return nil, bad
	}
	return e.data, nil
}

// pushed is an item of a push or a drive commit.
type pushed struct {
	Name string `json:"name"`
	Key  string `json:"key"`
	Ref  *struct {
		Kind string `json:"kind"`
		ID   string `json:"id"`
	} `json:"file_ref"`
}

func (s *Stub) push(r *http.Request, body map[string]json.RawMessage) (any, *refusal) {
	for key, list := range map[string]*[]*entry{"skills": &s.skills, "files": &s.confFiles} {
		var items []pushed
		if bad := s.decode(r, body[key], &items); bad != nil {
			return nil, bad
		}
		if items == nil {
			return nil, s.invalid(r, "%s is null", key)
		}
		for _, item := range items {
			if bad := s.apply(r, list, item, item.Name); bad != nil {
				return nil, bad
			}
		}
	}
	return s.manifest(r, nil)
}

// apply sets or deletes one thing.
func (s *Stub) apply(r *http.Request, list *[]*entry, item pushed, name string) *refusal {
	if name == "" || strings.ContainsAny(name, "\\\x00") {
		return s.invalid(r, "name %q", name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if item.Ref == nil {
		*list = slices.DeleteFunc(*list, func(e *entry) bool { return e.name == name })
		return nil
	}
	f := s.files[item.Ref.ID]
	if item.Ref.Kind != "tool_file" || f == nil {
		return &refusal{http.StatusBadRequest, map[string]any{"code": "source_not_found", "message": "no such upload"}}
	}
	*list = set(*list, name, f.data)
	return nil
}

func (s *Stub) pushEnv(r *http.Request, body map[string]json.RawMessage) (any, *refusal) {
	var text string
	if bad := s.decode(r, body["env_text"], &text); bad != nil {
		return nil, bad
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.envText = text
	return map[string]any{"env_keys": s.envKeys()}, nil
}

func (s *Stub) pushNote(r *http.Request, body map[string]json.RawMessage) (any, *refusal) {
	var text string
	if bad := s.decode(r, body["note"], &text); bad != nil {
		return nil, bad
	}
	s.SetNote(text)
	return map[string]any{"note": text}, nil
}
