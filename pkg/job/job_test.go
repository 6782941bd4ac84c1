package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestNewID(t *testing.T) {
	seen := map[ID]bool{}
	for range 1000 {
		id := NewID()
		if !id.Valid() || seen[id] {
			t.Fatalf("NewID() = %q, seen before: %v", id, seen[id])
		}
		seen[id] = true
	}
}

func TestIDValid(t *testing.T) {
	for id, want := range map[ID]bool{
		"0123456789abcdef": true, "ffffffffffffffff": true,
		"": false, "0123456789abcde": false, "0123456789abcdef0": false, "0123456789ABCDEF": false, "0123456789abcdeg": false,
		"../../etc/passwd": false, "0123456789abcde/": false, "0123456789abcde\x00": false, "0123456789abcd\xc3\xa9": false, "0123456789abcde ": false, "................": false,
		ID(strings.Repeat("a", 1<<20)): false,
	} {
		if got := id.Valid(); got != want {
			t.Errorf("ID(%.40q).Valid() = %v", id, got)
		}
	}
}

func TestParseMode(t *testing.T) {
	for s, want := range map[string]Mode{"": ModePTY, "pty": ModePTY, "stdio": ModeStdio} {
		if m, err := ParseMode(s); m != want || err != nil {
			t.Errorf("ParseMode(%q) = %q, %v", s, m, err)
		}
	}
	for _, s := range []string{"PTY", " pty", "pty\x00", "stdout"} {
		_, err := ParseMode(s)
		var e *Error
		if !errors.As(err, &e) || e.Code != CodeValidation || e.Message != fmt.Sprintf("invalid job mode %q", s) {
			t.Errorf("ParseMode(%q): %#v", s, err)
		}
	}
}

func TestStatusTerminal(t *testing.T) {
	for s, want := range map[Status]bool{
		StatusCreated: false, StatusStarting: false, StatusRunning: false, "": false, "EXITED": false,
		StatusExited: true, StatusTerminated: true, StatusFailed: true, StatusLost: true,
	} {
		if got := s.Terminal(); got != want {
			t.Errorf("%q.Terminal() = %v", s, got)
		}
	}
}

// The exit record outlives the program that wrote it: its form is fixed.
func TestExitRecord(t *testing.T) {
	code := 0
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, e := range map[string]Exit{
		`{"status":"exited","exit_code":0,"reason":"exited","ended_at":"2026-01-02T03:04:05Z"}`:                     {Status: StatusExited, Code: &code, Reason: ReasonExited, EndedAt: at},
		`{"status":"lost","exit_code":null,"reason":"runner_lost","message":"m","ended_at":"2026-01-02T03:04:05Z"}`: {Status: StatusLost, Reason: ReasonRunnerLost, Message: "m", EndedAt: at},
	} {
		if got, err := json.Marshal(e); err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}

func TestErrorf(t *testing.T) {
	err := fmt.Errorf("wrap: %w", Errorf(CodeJobNotFound, "no %s", "job"))
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeJobNotFound || err.Error() != "wrap: no job" {
		t.Errorf("%#v", err)
	}
}
