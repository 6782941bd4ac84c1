package applets

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"shellctl/pkg/client"
	"shellctl/pkg/config"
)

func runHealth(c call) int {
	var o remoteOptions
	var timeout float64
	flags := func(f *pflag.FlagSet) {
		f.Float64Var(&timeout, "timeout", config.HealthTimeout.Seconds(), "seconds to wait for the answer")
	}
	return jobCommand(c, "[FLAGS]", "Ask whether a server answers.", &o, cobra.NoArgs, flags, func(ctx context.Context, r *remote, _ []string) error {
		ctx, cancel := context.WithTimeout(ctx, config.Seconds(timeout, config.MaxTimeout))
		defer cancel()
		h, err := r.Health(ctx)
		if err != nil {
			return err
		}
		return r.print(h, func() { fmt.Fprintln(r.out, h.Status) })
	})
}

func runStatus(c call) int {
	var o remoteOptions
	return jobCommand(c, "ID [FLAGS]", "Print the state of a job.", &o, cobra.ExactArgs(1), nil, func(ctx context.Context, r *remote, args []string) error {
		v, err := r.Status(ctx, args[0])
		if err != nil {
			return err
		}
		return r.print(v, func() { printView(r.out, v) })
	})
}

func runList(c call) int {
	var o remoteOptions
	var status string
	var limit int
	flags := func(f *pflag.FlagSet) {
		f.StringVar(&status, "status", "", "only jobs in this state")
		f.IntVar(&limit, "limit", 0, "how many at most (default: the server's)")
	}
	return jobCommand(c, "[FLAGS]", "List jobs, the newest first.", &o, cobra.NoArgs, flags, func(ctx context.Context, r *remote, _ []string) error {
		l, err := r.List(ctx, status, limit)
		if err != nil {
			return err
		}
		return r.print(l, func() { printList(r.out, l) })
	})
}

func runTerminate(c call) int {
	var o remoteOptions
	var grace graceFlag
	return jobCommand(c, "ID [FLAGS]", "End a job and all its processes.", &o, cobra.ExactArgs(1), grace.add, func(ctx context.Context, r *remote, args []string) error {
		v, err := r.Terminate(ctx, args[0], grace.value())
		if err != nil {
			return err
		}
		return r.print(v, func() { printView(r.out, v) })
	})
}

func runDelete(c call) int {
	var o remoteOptions
	var grace graceFlag
	var force bool
	flags := func(f *pflag.FlagSet) {
		f.BoolVar(&force, "force", false, "end the job first if it is running")
		grace.add(f)
	}
	return jobCommand(c, "ID [FLAGS]", "Remove a job with its output.", &o, cobra.ExactArgs(1), flags, func(ctx context.Context, r *remote, args []string) error {
		d, err := r.Delete(ctx, args[0], force, grace.value())
		if err != nil {
			return err
		}
		return r.print(d, func() { fmt.Fprintln(r.out, "deleted", d.JobID) })
	})
}

// graceFlag is a grace that may be left to the server.
type graceFlag struct {
	set     *pflag.Flag
	seconds float64
}

func (g *graceFlag) add(f *pflag.FlagSet) {
	f.Float64Var(&g.seconds, "grace-seconds", 0, "time between the first signal and SIGKILL (default: the server's)")
	g.set = f.Lookup("grace-seconds")
}

func (g *graceFlag) value() *float64 {
	if !g.set.Changed {
		return nil
	}
	return &g.seconds
}

// waitFlags are the flags of the commands that wait for output.
type waitFlags struct{ client.WaitRequest }

func (w *waitFlags) add(f *pflag.FlagSet) {
	f.Float64Var(&w.Timeout, "timeout", 0, "seconds to wait at most (default: see above)")
	f.Int64Var(&w.OutputLimit, "output-limit", 0, "bytes of output in one answer (default: the server's)")
	f.Float64Var(&w.IdleFlush, "idle-flush-seconds", 0, "answer when output has not grown for so long (default: the server's)")
}

func runWait(c call) int {
	var o remoteOptions
	var w waitFlags
	flags := func(f *pflag.FlagSet) {
		f.Int64Var(&w.Offset, "offset", 0, "bytes of the output to skip")
		w.add(f)
	}
	short := "Print the output of a job until it ends, or until the timeout, and exit with its code.\nWith --json, make one call and print its answer."
	return jobCommand(c, "ID [FLAGS]", short, &o, cobra.ExactArgs(1), flags, func(ctx context.Context, r *remote, args []string) error {
		if r.opt.json {
			res, err := r.Wait(ctx, args[0], w.WaitRequest)
			if err != nil {
				return err
			}
			return r.print(res, nil)
		}
		return r.follow(ctx, args[0], w.WaitRequest)
	})
}

func runTail(c call) int {
	var o remoteOptions
	var limit int64
	var follow bool
	flags := func(f *pflag.FlagSet) {
		f.Int64Var(&limit, "output-limit", 0, "bytes to print (default: the server's)")
		f.BoolVarP(&follow, "follow", "f", false, "go on until the job ends, and exit with its code")
	}
	return jobCommand(c, "ID [FLAGS]", "Print the end of a job's output.", &o, cobra.ExactArgs(1), flags, func(ctx context.Context, r *remote, args []string) error {
		res, err := r.Tail(ctx, args[0], limit)
		if err != nil {
			return err
		}
		if err := r.print(res, func() { fmt.Fprint(r.out, res.Output) }); err != nil || !follow {
			return err
		}
		return r.follow(ctx, args[0], client.WaitRequest{Offset: res.Offset})
	})
}

func runInput(c call) int {
	var o remoteOptions
	var w waitFlags
	var enter bool
	flags := func(f *pflag.FlagSet) {
		f.Int64Var(&w.Offset, "offset", -1, "bytes of the output to skip in the answer (default: all so far)")
		f.BoolVar(&enter, "enter", false, "press Enter after the text")
		w.add(f)
	}
	short := "Type text into the terminal of a job and print what it answers. The text - is standard input."
	return jobCommand(c, "ID TEXT [FLAGS]", short, &o, cobra.ExactArgs(2), flags, func(ctx context.Context, r *remote, args []string) error {
		text, err := textArg(c.stdin, args[1])
		if err != nil {
			return err
		}
		if enter {
			text += "\n"
		}
		if w.Offset < 0 {
			v, err := r.Status(ctx, args[0])
			if err != nil {
				return err
			}
			w.Offset = v.Offset
		}
		res, err := r.Input(ctx, args[0], text, w.WaitRequest)
		if err != nil {
			return err
		}
		return r.print(res, func() { fmt.Fprint(r.out, res.Output) })
	})
}

// textArg returns an argument, or standard input for "-".
func textArg(stdin io.Reader, arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	b, err := io.ReadAll(stdin)
	if err != nil {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	return string(b), nil
}

// scriptArg is textArg, but an argument that names a file is read from it.
func scriptArg(stdin io.Reader, arg string) (string, error) {
	if st, err := os.Stat(arg); err != nil || !st.Mode().IsRegular() {
		return textArg(stdin, arg)
	}
	b, err := os.ReadFile(arg)
	if err != nil {
		return "", fmt.Errorf("read script: %w", err)
	}
	return string(b), nil
}

func printView(w io.Writer, v client.View) {
	code := "-"
	if v.ExitCode != nil {
		code = fmt.Sprint(*v.ExitCode)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"job", v.JobID},
		{"status", v.Status},
		{"exit code", code},
		{"created", v.Created},
		{"started", orDash(v.Started)},
		{"ended", orDash(v.Ended)},
		{"output bytes", fmt.Sprint(v.Offset)},
	} {
		fmt.Fprintf(tw, "%s\t%s\n", row[0], row[1])
	}
	_ = tw.Flush() // standard output is gone, if it fails
}

func printList(w io.Writer, l client.List) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "JOB\tSTATUS\tCREATED\tENDED")
	for _, j := range l.Jobs {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", j.JobID, j.Status, j.Created, orDash(&j.Ended))
	}
	_ = tw.Flush() // standard output is gone, if it fails
}

func orDash(s *string) string {
	if s == nil || strings.TrimSpace(*s) == "" {
		return "-"
	}
	return *s
}
