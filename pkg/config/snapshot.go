package config

import (
	"fmt"
	"strconv"
	"time"
)

// Environment variables of the snapshot of the home directory.
const (
	EnvSnapshotTimeout     = "SHELLCTL_SNAPSHOT_TIMEOUT"
	EnvSnapshotIdleTimeout = "SHELLCTL_SNAPSHOT_IDLE_TIMEOUT"
	EnvRestoreMaxBytes     = "SHELLCTL_RESTORE_MAX_BYTES"
	EnvRestoreMaxEntries   = "SHELLCTL_RESTORE_MAX_ENTRIES"
)

const (
	// DefaultSnapshotTimeout is the contract's. It covers a whole save or
	// restore, from the moment that no other can begin.
	DefaultSnapshotTimeout = 45 * time.Second

	// MaxSaveBody is how much of the body of a save is looked at, MaxSaveRest
	// how much more of it is read and thrown away.
	MaxSaveBody = 64 << 10
	MaxSaveRest = 1 << 20
)

// Snapshot bounds saving and restoring the home directory.
type Snapshot struct {
	Timeout     time.Duration // of the whole operation
	IdleTimeout time.Duration // without a byte to or from the client; 0: none
	MaxBytes    int64         // of content in one restore; 0: no limit
	MaxEntries  int64         // in one restore; 0: no limit
}

// SnapshotFromEnv reads the settings of snapshots from the server's environment.
func SnapshotFromEnv() (Snapshot, error) {
	s := Snapshot{Timeout: DefaultSnapshotTimeout}
	if text := envText(EnvSnapshotTimeout); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return s, fmt.Errorf("read %s: %q is not a duration above zero, such as 45s", EnvSnapshotTimeout, text)
		}
		s.Timeout = d
	}
	if text := envText(EnvSnapshotIdleTimeout); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return s, fmt.Errorf("read %s: %q is not a duration, such as 10s", EnvSnapshotIdleTimeout, text)
		}
		s.IdleTimeout = d
	}
	for _, limit := range []struct {
		name, unit string
		to         *int64
	}{{EnvRestoreMaxBytes, "bytes", &s.MaxBytes}, {EnvRestoreMaxEntries, "entries", &s.MaxEntries}} {
		text := envText(limit.name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return s, fmt.Errorf("read %s: %q is not a number of %s", limit.name, text, limit.unit)
		}
		*limit.to = n
	}
	return s, nil
}
