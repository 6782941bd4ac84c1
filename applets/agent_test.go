package applets

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// agentOutput runs the CLI in this process with an empty environment.
func agentOutput(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = runAgent(call{name: agentName, args: args, stdout: &out, stderr: &errs})
	return code, out.String(), errs.String()
}

// walkCommands calls f for every command below cmd that has a name.
func walkCommands(cmd *cobra.Command, f func(*cobra.Command)) {
	for _, sub := range cmd.Commands() {
		if sub.Name() != "" {
			f(sub)
			walkCommands(sub, f)
		}
	}
}

// TestAgentCommandHelp looks at the help of every command, hidden ones too: it
// has the command's path, its purpose and all its flags.
func TestAgentCommandHelp(t *testing.T) {
	walkCommands(agentCLI{}.newRoot(), func(cmd *cobra.Command) {
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		code, stdout, stderr := agentOutput(args...)
		want := []string{cmd.CommandPath(), strings.TrimSuffix(cmd.Short, "."), "-h, --help"}
		cmd.Flags().VisitAll(func(f *pflag.Flag) { want = append(want, "--"+f.Name, f.Usage) })
		for _, part := range want {
			if !strings.Contains(stdout, part) {
				t.Errorf("%v: no %q in\n%s", args, part, stdout)
			}
		}
		if code != exitOK || stderr != "" || cmd.Short == "" {
			t.Errorf("%v: exit code %d, stderr %q", args, code, stderr)
		}
	})
}

// TestAgentHidden pins what help does not list.
func TestAgentHidden(t *testing.T) {
	var hidden []string
	walkCommands(agentCLI{}.newRoot(), func(cmd *cobra.Command) {
		if cmd.Hidden {
			hidden = append(hidden, strings.TrimPrefix(cmd.CommandPath(), agentName+" "))
		}
	})
	slices.Sort(hidden)
	if want := []string{"config file", "config skill", "drive"}; !slices.Equal(hidden, want) {
		t.Errorf("hidden commands %q, want %q", hidden, want)
	}
}

// TestAgentDumpHelp pins the commands of the dump, and that each text is the
// command's help.
func TestAgentDumpHelp(t *testing.T) {
	code, stdout, _ := agentOutput("__dump-cli-help")
	if code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	var pages map[string]string
	if err := json.Unmarshal([]byte(stdout), &pages); err != nil {
		t.Fatal(err)
	}
	want := strings.Split(`config
config env
config env push
config files
config files delete
config files pull
config files push
config manifest
config note
config note pull
config note push
config skills
config skills delete
config skills pull
config skills push
connect
file
file download
file public-url
file upload
knowledge
knowledge capabilities
knowledge cat
knowledge diff
knowledge find
knowledge grep
knowledge image
knowledge images
knowledge ls
knowledge open
knowledge search
knowledge spaces
knowledge stat
knowledge tree`, "\n")
	if got := slices.Sorted(maps.Keys(pages)); !slices.Equal(got, want) {
		t.Errorf("dump has %q, want %q", got, want)
	}
	for path, page := range pages {
		_, help, _ := agentOutput(append(strings.Fields(path), "--help")...)
		if page != strings.TrimRight(help, "\n") {
			t.Errorf("%s: the dump differs from --help:\n%s\n%s", path, page, help)
		}
	}
	again, err := json.MarshalIndent(pages, "", "  ")
	if err != nil || string(again)+"\n" != stdout {
		t.Errorf("the dump is not indented and sorted: %v", err)
	}
}

// TestKnowledgeFlags makes sure that every command's flags are known ones.
func TestKnowledgeFlags(t *testing.T) {
	want := map[string]string{
		"spaces": "", "capabilities": "space", "search": "image-file-id limit query space",
		"ls": "cursor limit path space", "tree": "cursor depth limit path space",
		"find": "cursor limit path query space", "grep": "cursor limit path query space",
		"cat": "cursor limit path space", "stat": "path space", "diff": "new-path old-path space",
		"open": "node-id receipt space", "images": "cursor limit receipt space", "image": "item-id receipt space",
	}
	got := make(map[string]string)
	for _, cmd := range (agentCLI{}).newKnowledge().Commands() {
		var flags []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "json" && f.Name != "command-id" {
				flags = append(flags, f.Name)
			}
		})
		got[cmd.Name()] = strings.Join(flags, " ")
	}
	if !maps.Equal(got, want) {
		t.Errorf("flags %v, want %v", got, want)
	}
}

func TestShellQuote(t *testing.T) {
	for s, want := range map[string]string{"": "''", "a b": "'a b'", "it's": `'it'\''s'`} {
		if got := shellQuote(s); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", s, got, want)
		}
	}
}
