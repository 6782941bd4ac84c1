// Package config holds every environment variable, flag default and limit of
// the product, once.
package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Environment variables of the server and the job commands.
const (
	EnvAuthToken      = "SHELLCTL_AUTH_TOKEN"
	EnvBaseURL        = "SHELLCTL_BASE_URL"
	EnvStateDir       = "SHELLCTL_STATE_DIR"
	EnvDrainGrace     = "SHELLCTL_DRAIN_GRACE"
	EnvMaxOutputBytes = "SHELLCTL_MAX_OUTPUT_BYTES"
	EnvXDGDataHome    = "XDG_DATA_HOME"

	// EnvPrefix begins every variable of ours; none of them reaches a job
	// unless the request names it.
	EnvPrefix = "SHELLCTL_"
)

// Defaults and bounds that clients can see (contract of the HTTP API).
const (
	DefaultListen      = "127.0.0.1:8765"
	DefaultBaseURL     = "http://127.0.0.1:8765"
	DefaultTimeout     = 30 * time.Second
	HealthTimeout      = 5 * time.Second
	MaxTimeout         = 600 * time.Second
	DefaultIdleFlush   = 500 * time.Millisecond
	DefaultGrace       = 10 * time.Second
	MaxGrace           = 300 * time.Second
	DefaultOutputLimit = 16 << 10
	MaxOutputLimit     = 512 << 10
	DefaultListLimit   = 50
	MaxListLimit       = 200
	DefaultCols        = 200
	DefaultRows        = 50
	MaxTerminal        = 4096 // columns or rows
)

// Bounds of the inside.
const (
	DefaultGCInterval  = 60 * time.Second
	DefaultGCRetention = 300 * time.Second

	// DefaultDrainGrace is how long the end of a job waits for the next byte
	// while a descendant still holds its terminal or a pipe, MaxDrain how long
	// in all. One second is what users of such tools accept for late output.
	DefaultDrainGrace = time.Second
	MaxDrain          = 10 * time.Second

	// DefaultMaxOutputBytes caps one output file of a job; the last
	// OutputTailBytes are kept beyond it.
	DefaultMaxOutputBytes = 256 << 20
	OutputTailBytes       = 64 << 10

	// ShutdownGrace is how long a stopping server lets running answers finish.
	ShutdownGrace = 5 * time.Second

	// FinalGrace is the grace of jobs that end since the container is stopped,
	// FinalLimit how long the server waits for them. Kubernetes and Docker kill
	// after 30 and 10 s; users of the product expect 5.
	FinalGrace = 3 * time.Second
	FinalLimit = 4 * time.Second

	// MaxFieldBytes bounds all fields of a request body but the script.
	MaxFieldBytes = 16 << 20

	// MaxEnvEntry is the longest NAME=VALUE with its NUL that Linux takes in
	// one string of a new program (MAX_ARG_STRLEN: 32 pages of 4 KiB).
	MaxEnvEntry = 128 << 10

	// MaxHeaderBytes bounds the head of a request.
	MaxHeaderBytes = 1 << 20
)

// Server is the configuration of a server.
type Server struct {
	Listen      string
	Token       string // empty: no authentication
	StateDir    string // absolute
	Limits      Limits
	RuntimeDir  string // absolute; control sockets lie here instead of in the job directories; empty: there
	GCInterval  time.Duration
	GCRetention time.Duration
	Runner      Runner
	Snapshot    Snapshot
}

// Runner is what a runner is told besides its job.
type Runner struct {
	DrainGrace     time.Duration `json:"drain_grace"`
	MaxOutputBytes int64         `json:"max_output_bytes"` // of each output file; 0: no cap
}

// RunnerFromEnv reads the runner's settings from the server's environment.
func RunnerFromEnv() (Runner, error) {
	r := Runner{DrainGrace: DefaultDrainGrace, MaxOutputBytes: DefaultMaxOutputBytes}
	if s := envText(EnvDrainGrace); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 || d > MaxDrain {
			return r, fmt.Errorf("read %s: %q is not a duration from 0s to %v", EnvDrainGrace, s, MaxDrain)
		}
		r.DrainGrace = d
	}
	if s := envText(EnvMaxOutputBytes); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			return r, fmt.Errorf("read %s: %q is not a number of bytes", EnvMaxOutputBytes, s)
		}
		r.MaxOutputBytes = n
	}
	return r, nil
}

// envText is a variable without the blanks around it.
func envText(name string) string { return strings.TrimSpace(os.Getenv(name)) }

// StateDir returns the directory that holds the record and the jobs when no
// flag names one: $SHELLCTL_STATE_DIR, $XDG_DATA_HOME/shellctl, else
// ~/.local/share/shellctl.
func StateDir() (string, error) {
	if s := os.Getenv(EnvStateDir); s != "" {
		return filepath.Abs(s)
	}
	// A relative XDG path is to be ignored, says the XDG base directory specification.
	if x := os.Getenv(EnvXDGDataHome); filepath.IsAbs(x) {
		return filepath.Join(x, "shellctl"), nil
	}
	home := os.Getenv("HOME")
	if home == "" {
		return "", errors.New("find state directory: HOME is not set; give --state-dir")
	}
	return filepath.Abs(filepath.Join(home, ".local", "share", "shellctl"))
}

// Seconds turns a number of seconds from a client into a duration, at most max.
func Seconds(s float64, max time.Duration) time.Duration {
	if s >= max.Seconds() {
		return max
	}
	return time.Duration(s * float64(time.Second))
}
