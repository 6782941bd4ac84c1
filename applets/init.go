package applets

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"shellctl/pkg/config"
)

// isLast reports whether the end of this process is the end of all: it is the
// first process of its container, or the one that a small init waits for. Jobs
// can not outlive it then; the kernel kills what is left without a trace.
func isLast() bool {
	if os.Getpid() == 1 {
		return true
	}
	if os.Getppid() != 1 {
		return false
	}
	comm, err := os.ReadFile("/proc/1/comm")
	if err != nil {
		return false // hidden: so it is no init of ours
	}
	switch strings.TrimSpace(string(comm)) {
	case "tini", "docker-init", "catatonit":
	default:
		return false
	}
	// It starts its child in its own session as the leader of a group. A process
	// that it only adopted, as one started under setsid, is in another.
	mine, err := unix.Getsid(0)
	first, ferr := unix.Getsid(1)
	return err == nil && ferr == nil && mine == first && unix.Getpgrp() == os.Getpid()
}

// endJobs passes the end on to everything that runs here, and returns when all
// jobs have ended and are recorded.
func (s *server) endJobs(log *slog.Logger) {
	log.Info("stopping; running jobs end with this container")
	if os.Getpid() == 1 {
		// What jobs left behind. Runners take no notice; an init does that itself.
		if err := unix.Kill(-1, unix.SIGTERM); err != nil && err != unix.ESRCH {
			log.Warn("processes were not told to end", "error", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), config.FinalLimit)
	defer cancel()
	s.jobs.TerminateAll(ctx, config.FinalGrace)
}
