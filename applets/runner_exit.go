package applets

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"shellctl/pkg/job"
	"shellctl/pkg/store"
)

type runnerExitOptions struct {
	stateDir string
	jobID    string
	busyMS   int
	exitCode string
	endedAt  string
	status   string
	reason   string
	message  string
}

func (o *runnerExitOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.stateDir, "state-dir", "", "directory of the record (required)")
	f.StringVar(&o.jobID, "job-id", "", "the job that ended (required)")
	f.IntVar(&o.busyMS, "sqlite-busy-timeout-ms", int(store.DefaultBusyTimeout.Milliseconds()), "how long to wait for another writer")
	f.StringVar(&o.exitCode, "exit-code", "0", "exit code, or none")
	f.StringVar(&o.endedAt, "ended-at", "", "when it ended, as 2006-01-02T15:04:05Z (required)")
	f.StringVar(&o.status, "status", string(job.StatusExited), "terminal status")
	f.StringVar(&o.reason, "reason", job.ReasonExited, "reason of the end")
	f.StringVar(&o.message, "message", "", "more about the reason")
}

// exit checks the options. Each fault is an ordinary failure, not one of usage:
// callers know only success and failure of this applet.
func (o *runnerExitOptions) exit() (job.Exit, error) {
	e := job.Exit{Status: job.Status(o.status), Reason: o.reason, Message: o.message}
	if o.stateDir == "" || o.jobID == "" || o.endedAt == "" {
		return e, errors.New("--state-dir, --job-id and --ended-at are required")
	}
	if !e.Status.Terminal() {
		return e, fmt.Errorf("--status %q is not the end of a job", o.status)
	}
	var err error
	if e.EndedAt, err = time.Parse(job.TimeFormat, o.endedAt); err != nil {
		return e, fmt.Errorf("read --ended-at: %w", err)
	}
	if o.exitCode == "none" {
		return e, nil
	}
	code, err := strconv.Atoi(o.exitCode)
	if err != nil {
		return e, fmt.Errorf("read --exit-code: %w", err)
	}
	e.Code = &code
	return e, nil
}

func runRunnerExit(c call) int {
	c.args = doubleDash(c.args)
	var o runnerExitOptions
	cmd := newCommand(c, "--state-dir DIR --job-id ID --ended-at TIME [FLAGS]", "Record the end of a job, unless one is recorded already.")
	cmd.Args = cobra.NoArgs
	o.addFlags(cmd.Flags())
	cmd.RunE = func(*cobra.Command, []string) error { return recordExit(o) }
	return execute(c, cmd)
}

func recordExit(o runnerExitOptions) error {
	e, err := o.exit()
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := store.OpenExisting(ctx, o.stateDir, time.Duration(o.busyMS)*time.Millisecond)
	if err != nil {
		return err
	}
	_, err = s.Finish(ctx, job.ID(o.jobID), e)
	if err != nil {
		err = fmt.Errorf("record the end of job %s: %w", o.jobID, err)
	}
	return errors.Join(err, s.Close())
}
