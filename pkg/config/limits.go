package config

import (
	"fmt"
	"strconv"
	"time"
)

// Environment variables that bound a server.
const (
	EnvMaxRunningJobs = "SHELLCTL_MAX_RUNNING_JOBS"
	EnvMaxRecords     = "SHELLCTL_MAX_RECORDS"
	EnvMaxLogBytes    = "SHELLCTL_MAX_LOG_BYTES"
	EnvStallTimeout   = "SHELLCTL_STALL_TIMEOUT"
)

const (
	// DefaultMaxRecords is how many ended jobs are kept. Whoever has not read the
	// output of a job after that many others have ended will hardly come for it.
	DefaultMaxRecords = 10_000

	// DefaultStallTimeout is how long a client may neither send a byte of its
	// body nor take one of its answer.
	DefaultStallTimeout = 60 * time.Second
	MinStallTimeout     = 100 * time.Millisecond
	MaxStallTimeout     = time.Hour

	// IdleTimeout is how long a connection without a request stays open: a bit
	// longer than the 600 s for which load balancers keep theirs, so that it is
	// they who close it and never a request that finds it closed.
	IdleTimeout = 620 * time.Second

	// FreeDescriptors is how many descriptors a server keeps for clients: above
	// that, no job is started.
	FreeDescriptors = 64
)

// Limits bound what a server does at once and what it keeps.
type Limits struct {
	MaxRunningJobs int           // 0: no limit
	MaxRecords     int           // of ended jobs; 0: no limit
	MaxLogBytes    int64         // of the outputs of all ended jobs; 0: no limit
	StallTimeout   time.Duration // of a client; 0: none
}

// DefaultLimits are the limits where no variable is set.
func DefaultLimits() Limits {
	return Limits{MaxRecords: DefaultMaxRecords, StallTimeout: DefaultStallTimeout}
}

// LimitsFromEnv reads the limits from the server's environment.
func LimitsFromEnv() (Limits, error) {
	l := DefaultLimits()
	for _, v := range []struct {
		name string
		bits int
		set  func(int64)
	}{
		{EnvMaxRunningJobs, 31, func(n int64) { l.MaxRunningJobs = int(n) }},
		{EnvMaxRecords, 31, func(n int64) { l.MaxRecords = int(n) }},
		{EnvMaxLogBytes, 63, func(n int64) { l.MaxLogBytes = n }},
	} {
		s := envText(v.name)
		if s == "" {
			continue
		}
		n, err := strconv.ParseUint(s, 10, v.bits)
		if err != nil {
			return l, fmt.Errorf("read %s: %q is not a number from 0 to %d", v.name, s, int64(1)<<v.bits-1)
		}
		v.set(int64(n))
	}
	if s := envText(EnvStallTimeout); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil || d < MinStallTimeout || d > MaxStallTimeout {
			return l, fmt.Errorf("read %s: %q is not a duration from %v to %v", EnvStallTimeout, s, MinStallTimeout, MaxStallTimeout)
		}
		l.StallTimeout = d
	}
	return l, nil
}
