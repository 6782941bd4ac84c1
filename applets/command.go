package applets

import (
	"context"
	"errors"
	"fmt"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// exitError carries an exit code to Main; a nil err has been told already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// newCommand returns the command of an applet under the name it was called by.
func newCommand(c call, args, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use:                   c.name + " " + args,
		Short:                 short,
		DisableFlagsInUseLine: true,
		SilenceErrors:         true,
		SilenceUsage:          true,
		DisableAutoGenTag:     true,
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetUsageTemplate(usageTemplate)
	cmd.Flags().BoolP("help", "h", false, "print this help")
	// cobra takes the first word of Use for the name; ours may have two.
	cmd.SetHelpTemplate("{{.Short}}\n\n{{.UsageString}}")
	return cmd
}

const usageTemplate = `Usage: {{.Use}}
{{if .HasAvailableLocalFlags}}
Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}`

// execute runs a command and turns its error into an exit code: what the flags
// or arguments are wrong in is 2, else 1.
func execute(c call, cmd *cobra.Command) int {
	cmd.SetArgs(c.args)
	cmd.SetIn(c.stdin)
	cmd.SetOut(c.stdout)
	cmd.SetErr(c.stderr)
	usage := false
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		usage = true
		return err
	})
	if args := cmd.Args; args != nil {
		cmd.Args = func(cmd *cobra.Command, a []string) error {
			err := args(cmd, a)
			usage = usage || err != nil
			return err
		}
	}
	err := cmd.Execute()
	if err == nil {
		return exitOK
	}
	exit := &exitError{code: exitFailed, err: err}
	errors.As(err, &exit)
	if exit.err != nil {
		fmt.Fprintf(c.stderr, "shellctl: %v\n", exit.err)
	}
	if usage {
		fmt.Fprintf(c.stderr, "Try '%s --help'.\n", c.name)
		return exitUsage
	}
	return exit.code
}

// interruptible returns a context that ends with SIGINT or SIGTERM, so that a
// command can clear away what it has half done. A second signal ends at once.
func interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, unix.SIGINT, unix.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
