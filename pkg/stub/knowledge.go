package stub

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
)

// KnowledgeProtocol is the version of the knowledge commands spoken here.
const KnowledgeProtocol = 1

const (
	maxKnowledgeRequest  = 24 << 10
	maxKnowledgeResponse = 64 << 10
	maxQueryImages       = 4
	maxImageID           = 4096
)

// errKnowledge is all that is said of a lost exchange: nothing of it may name
// the server.
var errKnowledge = errors.New("knowledge request ended without a complete response")

// KnowledgeCommand is one command to the knowledge service.
type KnowledgeCommand struct {
	Name string
	ID   string         // a repeated one is not run again
	Args map[string]any // as they stand in the body
}

// Knowledge runs a command and returns the server's answer on one line.
func (c *Client) Knowledge(ctx context.Context, cmd KnowledgeCommand) ([]byte, error) {
	body := map[string]any{"version": KnowledgeProtocol, "command": cmd.Name, "command_id": cmd.ID}
	maps.Copy(body, cmd.Args)
	if data, err := json.Marshal(body); err != nil {
		return nil, fmt.Errorf("marshal request: %w", err)
	} else if len(data) > maxKnowledgeRequest {
		return nil, fmt.Errorf("knowledge request exceeds %d bytes", maxKnowledgeRequest)
	}
	answer, err := c.exchangeKnowledge(ctx, body)
	if err != nil {
		return nil, err
	}
	return checkKnowledge(cmd, answer)
}

func (c *Client) exchangeKnowledge(ctx context.Context, body map[string]any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.limits.knowledge)
	defer cancel()
	req, err := c.newRequest(ctx, request{method: http.MethodPost, path: "/knowledge/commands", body: body})
	if err != nil {
		return nil, errKnowledge
	}
	resp, err := c.direct.Do(req)
	if err != nil {
		return nil, errKnowledge
	}
	defer resp.Body.Close()
	answer, err := readAtMost(resp.Body, maxKnowledgeResponse)
	switch {
	case errors.Is(err, errTooLong):
		return nil, fmt.Errorf("knowledge response exceeds %d bytes", maxKnowledgeResponse)
	case err != nil:
		return nil, errKnowledge
	case resp.StatusCode >= http.StatusBadRequest:
		return nil, c.newStatusError("", resp.StatusCode, answer)
	}
	return answer, nil
}

// checkKnowledge makes sure that answer belongs to cmd.
func checkKnowledge(cmd KnowledgeCommand, answer []byte) ([]byte, error) {
	var envelope struct {
		Version int    `json:"version"`
		ID      string `json:"command_id"`
		Command string `json:"command"`
		Status  string `json:"status"`
	}
	err := json.Unmarshal(answer, &envelope)
	if err != nil || envelope.Version != KnowledgeProtocol || envelope.ID != cmd.ID ||
		envelope.Command != cmd.Name || envelope.Status != "ok" {
		return nil, errors.New("knowledge response uses an incompatible protocol")
	}
	var line bytes.Buffer
	if err := json.Compact(&line, answer); err != nil {
		return nil, errors.New("knowledge response uses an incompatible protocol")
	}
	return line.Bytes(), nil
}

// QueryImages turns image ids as users have them, UUIDs or file references,
// into the UUIDs that the service takes.
func QueryImages(ids []string) ([]string, error) {
	if len(ids) > maxQueryImages {
		return nil, errors.New("at most four query images are allowed")
	}
	out := make([]string, 0, len(ids))
	for _, id := range ids {
		if len(id) > maxImageID {
			return nil, fmt.Errorf("image file id exceeds %d bytes", maxImageID)
		}
		if record, err := recordID(id); err == nil {
			id = record
		}
		if !isUUID(id) {
			return nil, errors.New("image file id must be a UUID or a canonical file reference")
		}
		out = append(out, strings.ToLower(id))
	}
	return out, nil
}

// NewCommandID returns a random UUID, version 4.
func NewCommandID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand aborts the program instead
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// isUUID reports whether s is a UUID with hyphens.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, r := range s {
		switch hyphen := i == 8 || i == 13 || i == 18 || i == 23; {
		case hyphen != (r == '-'):
			return false
		case !hyphen && !strings.ContainsRune("0123456789abcdefABCDEF", r):
			return false
		}
	}
	return true
}
