package applets

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"shellctl/pkg/stub"
)

func (a agentCLI) newEnvPush() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "push PATH|-",
		Short: "Set or delete variables from dotenv text in a file or stdin",
		Long: "Set or delete variables from dotenv text in a file or stdin.\n\n" +
			"KEY=value sets a variable, KEY= deletes it, others stay as they are.",
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.pushText(cmd.Context(), args[0], (*stub.Client).PushEnv)
	}
	return cmd
}

func (a agentCLI) newNotePull() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pull",
		Short: "Write the note to a local file",
		Args:  cobra.NoArgs,
	}
	to := cmd.Flags().String("to", notePath(), "file to write")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.notePull(cmd.Context(), *to) }
	return cmd
}

func notePath() string { return filepath.Join(confDir, "note.md") }

func (a agentCLI) notePull(ctx context.Context, to string) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	path, err := client.PullNote(ctx, to)
	if err != nil {
		return err
	}
	return a.printLine([]byte(path))
}

func (a agentCLI) newNotePush() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "push [PATH|-]",
		Short: "Replace the note with a file or stdin",
		Args:  cobra.MaximumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path := notePath()
		if len(args) > 0 {
			path = args[0]
		}
		return a.pushText(cmd.Context(), path, (*stub.Client).PushNote)
	}
	return cmd
}

// pushText sends the text at path, or stdin if that is "-", and prints the answer.
func (a agentCLI) pushText(
	ctx context.Context, path string, push func(*stub.Client, context.Context, []byte) ([]byte, error),
) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	text, err := stub.ReadText(path, a.stdin)
	if err != nil {
		return err
	}
	answer, err := push(client, ctx, text)
	if err != nil {
		return err
	}
	return a.printLine(answer)
}
