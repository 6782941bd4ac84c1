package applets

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"shellctl/pkg/stub"
)

// pullItems is the JSON form of what was pulled.
type pullItems[T any] struct {
	Items []T `json:"items"`
}

func (a agentCLI) newSkillsPull() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pull [NAME]...",
		Short: "Fetch the named skills, or all of them, into a local directory",
	}
	var opts pullOptions
	opts.addFlags(cmd, "skills")
	cmd.RunE = func(cmd *cobra.Command, names []string) error { return a.skillsPull(cmd.Context(), names, opts) }
	return cmd
}

func (a agentCLI) skillsPull(ctx context.Context, names []string, opts pullOptions) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	skills, err := client.PullSkills(ctx, names, opts.to)
	if err != nil {
		return err
	}
	if opts.asJSON {
		return a.printJSON(pullItems[stub.PulledSkill]{skills})
	}
	return a.print(skillsText(skills))
}

// skillsText shows each skill as its directory and its text. The server puts
// this into a prompt.
func skillsText(skills []stub.PulledSkill) []byte {
	var text bytes.Buffer
	for i, s := range skills {
		if i > 0 {
			text.WriteByte('\n')
		}
		fmt.Fprintf(&text, "%s\n%s", s.DirectoryPath, s.Text)
	}
	return text.Bytes()
}

func (a agentCLI) newFilesPull() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pull [NAME]...",
		Short: "Fetch the named configuration files, or all of them, into a local directory",
	}
	var opts pullOptions
	opts.addFlags(cmd, "files")
	cmd.RunE = func(cmd *cobra.Command, names []string) error { return a.filesPull(cmd.Context(), names, opts) }
	return cmd
}

func (a agentCLI) filesPull(ctx context.Context, names []string, opts pullOptions) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	files, err := client.PullFiles(ctx, names, opts.to)
	if err != nil {
		return err
	}
	if opts.asJSON {
		return a.printJSON(pullItems[stub.PulledFile]{files})
	}
	var text bytes.Buffer
	for _, f := range files {
		fmt.Fprintln(&text, f.Path)
	}
	return a.print(text.Bytes())
}

// print prints text as it is.
func (a agentCLI) print(text []byte) error {
	if _, err := a.stdout.Write(text); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
