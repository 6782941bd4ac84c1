package config

import (
	"strings"
	"testing"
	"time"
)

func TestSnapshotFromEnv(t *testing.T) {
	plain := Snapshot{Timeout: 45 * time.Second}
	for _, c := range []struct {
		name, value string
		want        Snapshot
		bad         bool
	}{
		{"", "", plain, false},
		{EnvSnapshotTimeout, "", plain, false},
		{EnvSnapshotTimeout, "  ", plain, false},
		{EnvSnapshotTimeout, " 1m30s\n", Snapshot{Timeout: 90 * time.Second}, false},
		{EnvSnapshotTimeout, "1ns", Snapshot{Timeout: 1}, false},
		{EnvSnapshotTimeout, "45", Snapshot{}, true}, // without a unit
		{EnvSnapshotTimeout, "abc", Snapshot{}, true},
		{EnvSnapshotTimeout, "0", Snapshot{}, true},
		{EnvSnapshotTimeout, "0s", Snapshot{}, true},
		{EnvSnapshotTimeout, "-5s", Snapshot{}, true},
		{EnvSnapshotTimeout, "9999999h", Snapshot{}, true},
		{EnvSnapshotIdleTimeout, "10s", Snapshot{45 * time.Second, 10 * time.Second, 0, 0}, false},
		{EnvSnapshotIdleTimeout, "0s", plain, false},
		{EnvSnapshotIdleTimeout, "-1s", Snapshot{}, true},
		{EnvSnapshotIdleTimeout, "10", Snapshot{}, true},
		{EnvRestoreMaxBytes, " 5 ", Snapshot{45 * time.Second, 0, 5, 0}, false},
		{EnvRestoreMaxBytes, "0", plain, false},
		{EnvRestoreMaxBytes, "5MB", Snapshot{}, true},
		{EnvRestoreMaxBytes, "-1", Snapshot{}, true},
		{EnvRestoreMaxEntries, "7", Snapshot{45 * time.Second, 0, 0, 7}, false},
		{EnvRestoreMaxEntries, "9223372036854775808", Snapshot{}, true},
	} {
		for _, name := range []string{EnvSnapshotTimeout, EnvSnapshotIdleTimeout, EnvRestoreMaxBytes, EnvRestoreMaxEntries} {
			t.Setenv(name, "")
		}
		if c.name != "" {
			t.Setenv(c.name, c.value)
		}
		got, err := SnapshotFromEnv()
		if c.bad {
			if err == nil || !strings.Contains(err.Error(), c.name) {
				t.Errorf("%s=%q: %v, want an error that names it", c.name, c.value, err)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%s=%q: %+v, %v, want %+v", c.name, c.value, got, err, c.want)
		}
	}
}
