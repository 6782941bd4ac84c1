package applets

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"
)

// dumpHelp prints the help of every command as one JSON object. The server
// shows these texts to its model.
func (a agentCLI) dumpHelp(root *cobra.Command) error {
	pages := make(map[string]string)
	if err := addHelp(pages, root.Commands()); err != nil {
		return err
	}
	data, err := json.MarshalIndent(pages, "", "  ")
	if err != nil {
		return err
	}
	return a.printLine(data)
}

func addHelp(pages map[string]string, commands []*cobra.Command) error {
	for _, cmd := range commands {
		if cmd.Hidden {
			continue
		}
		var page bytes.Buffer
		cmd.SetOut(&page)
		cmd.InitDefaultHelpFlag() // Execute would do it
		if err := cmd.Help(); err != nil {
			return err
		}
		path := strings.TrimPrefix(cmd.CommandPath(), agentName+" ")
		pages[path] = strings.TrimRight(page.String(), "\n")
		if err := addHelp(pages, cmd.Commands()); err != nil {
			return err
		}
	}
	return nil
}
