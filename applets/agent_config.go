package applets

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"shellctl/pkg/stub"
)

// confDir is where pulls go by default, below the current directory.
const confDir = ".dify_conf"

func (a agentCLI) newConfig() *cobra.Command {
	return newGroup("config", "Read and change the agent's configuration",
		a.newConfigManifest(),
		newGroup("skills", "Pull, push and delete skills",
			a.newSkillsPull(), a.newConfigPush(stub.Skill), a.newConfigDelete(stub.Skill)),
		newGroup("files", "Pull, push and delete configuration files",
			a.newFilesPull(), a.newConfigPush(stub.File), a.newConfigDelete(stub.File)),
		newGroup("env", "Change configuration variables", a.newEnvPush()),
		newGroup("note", "Pull and push the configuration note", a.newNotePull(), a.newNotePush()),
		// Names that earlier prompts taught.
		hide(newGroup("skill", "Pull skills", a.newSkillsPull())),
		hide(newGroup("file", "Pull configuration files", a.newFilesPull())),
	)
}

func (a agentCLI) newConfigManifest() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "manifest",
		Short: "Print the manifest of the configuration as JSON",
		Args:  cobra.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.printAnswer((*stub.Client).Manifest, cmd.Context())
	}
	return cmd
}

// printAnswer prints what one call of the client returns.
func (a agentCLI) printAnswer(ask func(*stub.Client, context.Context) ([]byte, error), ctx context.Context) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	answer, err := ask(client, ctx)
	if err != nil {
		return err
	}
	return a.printLine(answer)
}

func (a agentCLI) newConfigPush(kind stub.Kind) *cobra.Command {
	short := "Upload local files into the configuration"
	if kind == stub.Skill {
		short = "Upload local skill directories into the configuration"
	}
	cmd := &cobra.Command{Use: "push PATH...", Short: short, Args: cobra.MinimumNArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, paths []string) error {
		return a.printAnswer(func(c *stub.Client, ctx context.Context) ([]byte, error) {
			return c.Push(ctx, kind, paths)
		}, cmd.Context())
	}
	return cmd
}

func (a agentCLI) newConfigDelete(kind stub.Kind) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete NAME...",
		Short: fmt.Sprintf("Delete %ss from the configuration; local files stay", kind),
		Args:  cobra.MinimumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		return a.printAnswer(func(c *stub.Client, ctx context.Context) ([]byte, error) {
			return c.Delete(ctx, kind, names)
		}, cmd.Context())
	}
	return cmd
}

// pullOptions are the flags of the pulls of skills and files.
type pullOptions struct {
	to     string
	asJSON bool
}

func (o *pullOptions) addFlags(cmd *cobra.Command, sub string) {
	cmd.Flags().StringVar(&o.to, "to", filepath.Join(confDir, sub), "directory to store into")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print names and paths as JSON")
}
