package applets

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"shellctl/pkg/stub"
)

// newDrive makes the commands of servers before 1.17. Newer ones answer 404.
func (a agentCLI) newDrive() *cobra.Command {
	return hide(newGroup("drive", "Exchange files with the agent's drive (older servers)",
		a.newDriveList(), a.newDrivePull(), a.newDrivePush()))
}

func (a agentCLI) newDriveList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [REMOTE_PREFIX]",
		Short: "List the files of the drive",
		Args:  cobra.MaximumNArgs(1),
	}
	asJSON := cmd.Flags().Bool("json", false, "print the list as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		prefix := ""
		if len(args) > 0 {
			prefix = args[0]
		}
		return a.driveList(cmd.Context(), prefix, *asJSON)
	}
	return cmd
}

func (a agentCLI) driveList(ctx context.Context, prefix string, asJSON bool) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	items, err := client.ListDrive(ctx, prefix)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(pullItems[stub.DriveItem]{append([]stub.DriveItem{}, items...)})
	}
	var text bytes.Buffer
	for _, item := range items {
		size := "-"
		if item.Size != nil {
			size = strconv.FormatInt(*item.Size, 10)
		}
		fmt.Fprintf(&text, "%s\t%s\t%s\t%s\n", size, cmp.Or(item.Type, "-"), cmp.Or(item.Hash, "-"), cmp.Or(item.Key, "-"))
	}
	return a.print(text.Bytes())
}

func (a agentCLI) newDrivePull() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pull [REMOTE]...",
		Short: "Fetch parts of the drive, or all of it, into a local directory",
	}
	to := cmd.Flags().String("to", "", "directory to store into (default: the drive base of this environment)")
	asJSON := cmd.Flags().Bool("json", false, "print keys and paths as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.drivePull(cmd.Context(), args, *to, *asJSON)
	}
	return cmd
}

func (a agentCLI) drivePull(ctx context.Context, targets []string, to string, asJSON bool) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	if to == "" {
		to = stub.ReadDriveBase(a.getenv)
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	pulled, err := client.PullDrive(ctx, targets, to)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(pullItems[stub.PulledTarget]{pulled})
	}
	var text bytes.Buffer
	for _, p := range pulled {
		fmt.Fprintln(&text, p.Path)
	}
	return a.print(text.Bytes())
}

func (a agentCLI) newDrivePush() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "push LOCAL REMOTE",
		Short: "Upload a file or directory to the drive",
		Args:  cobra.ExactArgs(2),
	}
	kind := cmd.Flags().String("kind", "", "what a directory is: skill or dir")
	cmd.Flags().Bool("json", true, "print JSON, which is the only form")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.printAnswer(func(c *stub.Client, ctx context.Context) ([]byte, error) {
			return c.PushDrive(ctx, args[0], args[1], *kind)
		}, cmd.Context())
	}
	return cmd
}
