package config

import (
	"strings"
	"testing"
	"time"
)

func TestLimitsFromEnv(t *testing.T) {
	for _, c := range []struct {
		jobs, records, bytes, stall string
		want                        Limits
		bad                         string // the variable that the error names
	}{
		{"", "", "", "", Limits{0, 10_000, 0, time.Minute}, ""},
		{"8", " 5\n", "9223372036854775807", "1.5s", Limits{8, 5, 1<<63 - 1, 1500 * time.Millisecond}, ""},
		{"0", "0", "0", "1h", Limits{0, 0, 0, time.Hour}, ""},
		{"-1", "", "", "", Limits{}, EnvMaxRunningJobs},
		{"2147483648", "", "", "", Limits{}, EnvMaxRunningJobs},
		{"", "many", "", "", Limits{}, EnvMaxRecords},
		{"", "", "9223372036854775808", "", Limits{}, EnvMaxLogBytes},
		{"", "", "1 GiB", "", Limits{}, EnvMaxLogBytes},
		{"", "", "", "0s", Limits{}, EnvStallTimeout},
		{"", "", "", "60", Limits{}, EnvStallTimeout}, // without a unit
		{"", "", "", "61m", Limits{}, EnvStallTimeout},
	} {
		t.Setenv(EnvMaxRunningJobs, c.jobs)
		t.Setenv(EnvMaxRecords, c.records)
		t.Setenv(EnvMaxLogBytes, c.bytes)
		t.Setenv(EnvStallTimeout, c.stall)
		got, err := LimitsFromEnv()
		if c.bad != "" {
			if err == nil || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%+v: %v, want an error that names %s", c, err, c.bad)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
}
