package fakestub

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// knowledgeKeys lists the keys of a command besides version, command and
// command_id. A question mark marks those that may be absent.
func knowledgeKeys(command string) []string {
	page := []string{"space", "path", "cursor?", "limit"}
	switch command {
	case "spaces":
		return []string{}
	case "capabilities":
		return []string{"space"}
	case "search":
		return []string{"space", "query?", "image_file_ids?", "limit"}
	case "ls", "cat":
		return page
	case "tree":
		return append(page, "depth")
	case "find", "grep":
		return append(page, "query")
	case "stat":
		return []string{"space", "path"}
	case "diff":
		return []string{"space", "old_path", "new_path"}
	case "open":
		return []string{"space", "node_id?", "receipt_id?"}
	case "images":
		return []string{"space", "receipt_id", "cursor?", "limit"}
	case "image":
		return []string{"space", "receipt_id", "item_id"}
	}
	return nil
}

func (s *Stub) knowledge(r *http.Request, body map[string]json.RawMessage) (any, *refusal) {
	var command, id string
	if bad := s.decode(r, body["command"], &command); bad != nil {
		return nil, bad
	}
	if bad := s.decode(r, body["command_id"], &id); bad != nil {
		return nil, bad
	}
	keys := knowledgeKeys(command)
	if keys == nil || string(body["version"]) != "1" {
		return nil, s.invalid(r, "command %q version %s", command, body["version"])
	}
	want := []string{"version", "command", "command_id"}
	for _, key := range keys {
		name, optional := strings.CutSuffix(key, "?")
		if _, ok := body[name]; ok || !optional {
			want = append(want, name)
		}
	}
	if bad := s.checkKeys(r, body, want...); bad != nil {
		return nil, &refusal{http.StatusUnprocessableEntity, map[string]any{
			"code": "KNOWLEDGE_INVALID_COMMAND", "message": "the command is not valid",
		}}
	}
	args := make(map[string]json.RawMessage)
	for key, value := range body {
		if !slices.Contains([]string{"version", "command", "command_id"}, key) {
			args[key] = value
		}
	}
	return map[string]any{
		"version": 1, "command_id": id, "command": command, "status": "ok", "code": nil, "message": nil,
		"data": map[string]any{"args": args}, "citations": []any{}, "trace_id": nil,
	}, nil
}
