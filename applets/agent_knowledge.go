package applets

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"shellctl/pkg/stub"
)

// knowledgeFlag is a flag of a knowledge command and the key of its value.
type knowledgeFlag struct {
	name, key, usage string
}

// knowledgeVerb is a knowledge command.
type knowledgeVerb struct {
	name, short string
	flags       []string // of knowledgeFlags, and the special ones of newKnowledgeVerb
}

func knowledgeFlags() []knowledgeFlag {
	return []knowledgeFlag{
		{"space", "space", "knowledge space, as spaces lists it"},
		{"query", "query", "text to look for"},
		{"cursor", "cursor", "where to go on, from the previous page"},
		{"old-path", "old_path", "first path to compare"},
		{"new-path", "new_path", "second path to compare"},
		{"node-id", "node_id", "UUID of a node"},
		{"receipt", "receipt_id", "receipt of an earlier answer"},
		{"item-id", "item_id", "image of the receipt's document"},
	}
}

func knowledgeVerbs() []knowledgeVerb {
	return []knowledgeVerb{
		{"spaces", "List the knowledge spaces bound to this agent and whether they answer", nil},
		{"capabilities", "Tell what a space can do", []string{"space"}},
		{"search", "Retrieve evidence by the space's own profile", []string{"space", "query", "image-file-id", "limit"}},
		{"ls", "List one page of entries", []string{"space", "path", "cursor", "limit"}},
		{"tree", "Show a bounded subtree", []string{"space", "path", "depth", "cursor", "limit"}},
		{"find", "Find entries by a part of their name", []string{"space", "path", "query", "cursor", "limit"}},
		{"grep", "Search the text of entries", []string{"space", "path", "query", "cursor", "limit"}},
		{"cat", "Print a page of text", []string{"space", "path", "cursor", "limit"}},
		{"stat", "Show the metadata of one path", []string{"space", "path"}},
		{"diff", "Compare two paths", []string{"space", "old-path", "new-path"}},
		{"open", "Open a node, or a receipt again", []string{"space", "node-id", "receipt"}},
		{"images", "List the images of a receipt's document", []string{"space", "receipt", "cursor", "limit"}},
		{"image", "Hand one image to a vision model", []string{"space", "receipt", "item-id"}},
	}
}

func (a agentCLI) newKnowledge() *cobra.Command {
	cmd := newGroup("knowledge", "Read the knowledge that is bound to this agent")
	for _, verb := range knowledgeVerbs() {
		cmd.AddCommand(a.newKnowledgeVerb(verb))
	}
	version := cmd.Flags().Bool("protocol-version", false, "print the version of the knowledge protocol")
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			return a.printLine(fmt.Append(nil, stub.KnowledgeProtocol))
		}
		return cmd.Help()
	}
	return cmd
}

// newKnowledgeVerb makes one command. args holds a function for each flag,
// which adds the flag's value to the body.
func (a agentCLI) newKnowledgeVerb(verb knowledgeVerb) *cobra.Command {
	cmd := &cobra.Command{Use: verb.name, Short: verb.short, Args: cobra.NoArgs}
	id := cmd.Flags().String("command-id", "", "id of this command; a repeated one is not run again (default: a random UUID)")
	cmd.Flags().Bool("json", true, "print JSON, which is the only form")
	var args []func(body map[string]any) error
	for _, name := range verb.flags {
		args = append(args, addKnowledgeFlag(cmd, name))
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		command := stub.KnowledgeCommand{Name: verb.name, ID: *id, Args: make(map[string]any)}
		for _, add := range args {
			if err := add(command.Args); err != nil {
				return err
			}
		}
		return a.knowledge(cmd.Context(), command)
	}
	return cmd
}

// addKnowledgeFlag adds a flag to cmd and returns what puts its value into the
// body. Empty texts are left out, numbers and the path are not.
func addKnowledgeFlag(cmd *cobra.Command, name string) func(map[string]any) error {
	flags := cmd.Flags()
	switch name {
	case "limit":
		n := flags.Int(name, 10, "entries at most, 1–50")
		return func(body map[string]any) error { body[name] = *n; return nil }
	case "depth":
		n := flags.Int(name, 2, "levels at most, 1–4")
		return func(body map[string]any) error { body[name] = *n; return nil }
	case "path":
		path := flags.String(name, "/knowledge", "path of the entry")
		return func(body map[string]any) error { body[name] = *path; return nil }
	case "image-file-id":
		ids := flags.StringArray(name, nil, "image to search with: a UUID or a file reference; up to four times")
		return func(body map[string]any) error { return addImages(body, *ids) }
	}
	for _, f := range knowledgeFlags() {
		if f.name == name {
			value := flags.String(name, "", f.usage)
			return func(body map[string]any) error {
				if *value != "" {
					body[f.key] = *value
				}
				return nil
			}
		}
	}
	panic("unknown knowledge flag " + name)
}

func addImages(body map[string]any, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	images, err := stub.QueryImages(ids)
	if err != nil {
		return err
	}
	body["image_file_ids"] = images
	return nil
}

func (a agentCLI) knowledge(ctx context.Context, command stub.KnowledgeCommand) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	if command.ID == "" {
		command.ID = stub.NewCommandID()
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	answer, err := client.Knowledge(ctx, command)
	if err != nil {
		return err
	}
	return a.printLine(answer)
}
