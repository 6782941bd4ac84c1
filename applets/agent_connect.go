package applets

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"shellctl/pkg/stub"
)

// newConnect describes connect for its help; run calls connectWith, since
// everything behind the word belongs to the connection.
func (a agentCLI) newConnect() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "connect [ARGV]...",
		Short: "Make one connection to the Agent Stub of this environment",
	}
	cmd.Flags().Bool("json", false, "print the answer as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.connectWith(cmd.Context(), args) }
	return cmd
}

// connectWith handles what follows the word connect.
func (a agentCLI) connectWith(ctx context.Context, args []string) error {
	asJSON := false
	if len(args) > 0 && args[0] == "--json" {
		asJSON, args = true, args[1:]
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	return a.connect(ctx, args, asJSON)
}

// connectImplicitly handles a command line that starts with no known command.
// Outside a sandbox that is most likely a mistake, so help comes first there.
func (a agentCLI) connectImplicitly(ctx context.Context, root *cobra.Command, args []string, asJSON bool) error {
	if a.getenv(stub.EnvBaseURL) == "" || a.getenv(stub.EnvToken) == "" {
		if err := helpFor(root, nil); err != nil {
			return err
		}
	}
	return a.connect(ctx, args, asJSON)
}

func (a agentCLI) connect(ctx context.Context, argv []string, asJSON bool) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	conn, err := client.Connect(ctx, argv)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(conn)
	}
	return a.printLine(fmt.Append(nil, "connected ", conn.ID))
}
