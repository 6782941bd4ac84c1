// Package job says what a shell job is: its identity, what was asked for, the
// states it passes through, how it ended, and the error type that carries a
// machine code to the caller. It does no I/O.
package job

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"
)

// ID names a job: 16 lower-case hexadecimal digits.
type ID string

const idBytes = 8

// NewID returns a fresh random ID. It does not check that it is free.
func NewID() ID {
	var b [idBytes]byte
	rand.Read(b[:]) // never fails: crypto/rand aborts the program instead
	return ID(hex.EncodeToString(b[:]))
}

// Valid reports whether the text has the form of an ID. Anything else can not
// name a job, and must not reach a path or a query.
func (id ID) Valid() bool {
	if len(id) != 2*idBytes {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Mode is how the streams of a job are connected.
type Mode string

const (
	ModePTY   Mode = "pty"   // one terminal for stdin, stdout and stderr
	ModeStdio Mode = "stdio" // stdin empty, stdout and stderr apart
)

// ParseMode returns the mode a request names; the empty text means ModePTY.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case "":
		return ModePTY, nil
	case ModePTY, ModeStdio:
		return m, nil
	}
	return "", Errorf(CodeValidation, "invalid job mode %q", s)
}

// Terminal is the size of a job's terminal in characters.
type Terminal struct {
	Cols uint16 `json:"cols"`
	Rows uint16 `json:"rows"`
}

// Status is a state in the life of a job:
// created → starting → running → exited | terminated | failed | lost.
type Status string

const (
	StatusCreated    Status = "created"
	StatusStarting   Status = "starting"
	StatusRunning    Status = "running"
	StatusExited     Status = "exited"     // the script ended, its output is complete
	StatusTerminated Status = "terminated" // ended by terminate or a forced delete
	StatusFailed     Status = "failed"     // never started
	StatusLost       Status = "lost"       // vanished without an exit record
)

// Terminal reports whether no further state can follow.
func (s Status) Terminal() bool {
	switch s {
	case StatusExited, StatusTerminated, StatusFailed, StatusLost:
		return true
	}
	return false
}

// Reasons of an end, for operators; no answer of the API carries them.
const (
	ReasonExited      = "exited"
	ReasonSignal      = "signal:" // followed by the signal's name, as in signal:SIGKILL
	ReasonTerminated  = "terminated"
	ReasonStartFailed = "start_failed"
	ReasonRunnerLost  = "runner_lost"
	ReasonRebooted    = "rebooted"
	ReasonOutputWrite = "output_write_failed"
)

// Exit is the end of a job.
type Exit struct {
	Status  Status    `json:"status"`
	Code    *int      `json:"exit_code"` // nil when the script left none
	Reason  string    `json:"reason"`
	Message string    `json:"message,omitempty"`
	EndedAt time.Time `json:"ended_at"`
}

// StartFailed is the end, at this moment, of a job that could not be started.
func StartFailed(cause error) Exit {
	return Exit{Status: StatusFailed, Reason: ReasonStartFailed, Message: cause.Error(), EndedAt: Now()}
}

// Files in the directory of a job.
const (
	ScriptFile  = "script"
	OutputFile  = "output.log"
	StderrFile  = "stderr.log"   // stdio mode only
	ExitFile    = "exit.json"    // an Exit, once the job is over
	ControlFile = "control.sock" // where the runner listens
)

// TimeFormat is the form of every time that clients and the record see:
// UTC in whole seconds.
const TimeFormat = "2006-01-02T15:04:05Z"

// Now is the wall clock in the precision of [TimeFormat].
func Now() time.Time { return time.Now().UTC().Truncate(time.Second) }

// Code classifies an error for machines. The API maps each to one HTTP status.
type Code string

const (
	CodeInvalidRequest      Code = "invalid_request"
	CodeInvalidCwd          Code = "invalid_cwd"
	CodeInvalidOffset       Code = "invalid_offset"
	CodeArchiveMalformed    Code = "archive_malformed"
	CodeUnauthorized        Code = "unauthorized"
	CodeNotFound            Code = "not_found"
	CodeMethodNotAllowed    Code = "method_not_allowed"
	CodeJobNotFound         Code = "job_not_found"
	CodeJobRunning          Code = "job_running"
	CodeJobNotRunning       Code = "job_not_running"
	CodeInputUnsupported    Code = "input_unsupported"
	CodeInputBlocked        Code = "input_blocked"
	CodeInputLineTooLong    Code = "input_line_too_long"
	CodeSnapshotBusy        Code = "snapshot_busy"
	CodeIdempotencyConflict Code = "idempotency_conflict"
	CodeValidation          Code = "validation_error"
	CodeRequestTimeout      Code = "request_timeout"
	CodeTooManyJobs         Code = "too_many_jobs"
	CodeTooManyFiles        Code = "too_many_files"
	CodeDiskFull            Code = "disk_full"
	CodeInternal            Code = "internal_error"
	CodeInternalPanic       Code = "internal_panic"
	CodeHomeUnavailable     Code = "home_unavailable"
	CodeSnapshotFailed      Code = "snapshot_failed"
	CodeRestoreFailed       Code = "restore_failed"
)

// Error is an error that a client is meant to see.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return e.Message }

// Unknown is the error for an ID that names no job.
func Unknown() *Error { return Errorf(CodeJobNotFound, "Unknown job id") }

// Errorf returns an *Error with a formatted message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
