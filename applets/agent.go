package applets

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"shellctl/pkg/stub"
)

// agentName is the program's name in help and messages, however it was called.
const agentName = "dify-agent"

// agentCLI is one invocation of the agent CLI, the command that jobs talk to
// their agent with.
//
// Results go to stdout, one line each. A failure prints nothing but one message
// on stderr, after the program's name, and ends with exit code 1. There is one
// exception: an upload whose link could not be had prints what it has.
type agentCLI struct {
	call
	getenv func(string) string
}

func runAgent(c call) int {
	a := agentCLI{call: c, getenv: os.Getenv}
	if err := a.run(context.Background(), c.args); err != nil {
		fmt.Fprintf(c.stderr, "%s: %v\n", agentName, err)
		return exitFailed
	}
	return exitOK
}

// run finds out what args ask for. A word that is no command is not an error:
// with all that follows it is told to the stub as a connection.
func (a agentCLI) run(ctx context.Context, args []string) error {
	root := a.newRoot()
	if len(args) == 0 {
		return helpFor(root, nil)
	}
	switch {
	case len(args) == 1 && args[0] == "__dump-cli-help":
		return a.dumpHelp(root)
	case args[0] == "help":
		return helpFor(root, args[1:])
	case args[0] == "connect" && !asksForHelp(args[1:]):
		return a.connectWith(ctx, args[1:])
	}
	asJSON := false
	if len(args) > 1 && args[0] == "--json" && !isCommand(root, args[1]) {
		asJSON, args = true, args[1:]
	}
	if !isCommand(root, args[0]) && !strings.HasPrefix(args[0], "-") {
		return a.connectImplicitly(ctx, root, args, asJSON)
	}
	if args[0] == "connect" {
		return helpFor(root, args[:1]) // also for a --help behind "--"
	}
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

func (a agentCLI) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:               agentName,
		Short:             "Work with the agent that runs this sandbox",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetHelpCommand(&cobra.Command{Hidden: true}) // "help" is handled by run
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.AddCommand(a.newConnect(), a.newFile(), a.newConfig(), a.newKnowledge(), a.newDrive())
	return root
}

// isCommand reports whether word names a command directly below root.
func isCommand(root *cobra.Command, word string) bool {
	return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == word && word != "" })
}

func asksForHelp(args []string) bool {
	return slices.Contains(args, "--help") || slices.Contains(args, "-h")
}

// helpFor prints the help of the command that words lead to.
func helpFor(root *cobra.Command, words []string) error {
	cmd, _, err := root.Find(words)
	if err != nil {
		cmd = root
	}
	cmd.InitDefaultHelpFlag() // Execute would do it
	return cmd.Help()
}

// newGroup makes a command that only holds others.
func newGroup(use, short string, commands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{Use: use, Short: short}
	group.AddCommand(commands...)
	return group
}

// hide takes a command out of the help, and leaves it working.
func hide(cmd *cobra.Command) *cobra.Command {
	cmd.Hidden = true
	return cmd
}

// client returns the client for the stub of the environment. Commands call it
// after their arguments have been checked.
func (a agentCLI) client() (*stub.Client, error) {
	env, err := stub.ReadEnvironment(a.getenv)
	if err != nil {
		return nil, err
	}
	return stub.New(env), nil
}

// printLine prints a server's answer as it is.
func (a agentCLI) printLine(line []byte) error {
	if _, err := fmt.Fprintf(a.stdout, "%s\n", line); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// printJSON prints v on one line. Links in it stay as they can be copied.
func (a agentCLI) printJSON(v any) error {
	out := json.NewEncoder(a.stdout)
	out.SetEscapeHTML(false)
	if err := out.Encode(v); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
