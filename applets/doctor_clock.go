package applets

import (
	"fmt"
	"time"

	"shellctl/pkg/proctree"
)

// oldest is before any release of this program: no clock is right that shows less.
var oldest = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

func checkClock() finding {
	start := time.Now()
	if start.Before(oldest) {
		return warned("clock", "it is "+start.UTC().Format(time.RFC3339), "set the clock: records carry its time")
	}
	last := start
	for range 10000 {
		now := time.Now()
		if now.Before(last) {
			return broken("clock", "the monotonic clock went back", "use another clock source")
		}
		last = now
	}
	<-time.After(20 * time.Millisecond)
	end := time.Now()
	passed, wall := end.Sub(start), end.Round(0).Sub(start.Round(0))
	if passed < 20*time.Millisecond {
		return broken("clock", fmt.Sprintf("a timer of 20ms took %v", passed), "use another clock source: deadlines would not hold")
	}
	if d := (wall - passed).Abs(); d > 10*time.Millisecond {
		return warned("clock", fmt.Sprintf("the time jumped by %v while this looked", wall-passed), "let the clock be slewed: records carry its time")
	}
	return ok("clock", start.UTC().Format(time.RFC3339))
}

func checkCgroup() finding {
	dir, err := proctree.CgroupBase()
	if err != nil {
		return warned("cgroup", err.Error(), "nothing depends on it; limit jobs by SHELLCTL_RLIMIT_*, all together by the container")
	}
	return ok("cgroup", "groups can be made below "+dir)
}
