package applets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// runSnapshot hands over to save and restore, which have flags of their own.
func runSnapshot(c call) int {
	if len(c.args) > 0 {
		sub := c
		sub.name, sub.args = c.name+" "+c.args[0], c.args[1:]
		switch c.args[0] {
		case "save":
			return runSnapshotSave(sub)
		case "restore":
			return runSnapshotRestore(sub)
		}
	}
	cmd := newCommand(c, "save|restore FILE|- [FLAGS]", "Save the home directory of a server as an archive (tar in zstd), or restore one.\n"+
		"'"+c.name+" save --help' and '"+c.name+" restore --help' explain them.")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return errors.New("save or restore?")
		}
		return fmt.Errorf("unknown command %q: save or restore?", args[0])
	}
	cmd.RunE = func(*cobra.Command, []string) error { return nil } // Args lets nothing pass
	return execute(c, cmd)
}

func runSnapshotSave(c call) int {
	var o remoteOptions
	var excludes []string
	flags := func(f *pflag.FlagSet) {
		f.StringArrayVar(&excludes, "exclude", nil, "`PATTERN` of what to leave out, as in .gitignore; can be repeated")
	}
	short := "Save the home directory of a server to a file; - is standard output.\nA file is complete or not there at all."
	return jobCommand(c, "FILE|- [FLAGS]", short, &o, cobra.ExactArgs(1), flags, func(ctx context.Context, r *remote, args []string) error {
		out, err := createArchive(c.stdout, args[0])
		if err != nil {
			return err
		}
		if args[0] == "-" {
			r.out = r.err // standard output is the archive's
		}
		bar := newProgress(c.stderr, "saving", -1)
		saved, err := r.SaveHome(ctx, io.MultiWriter(out, bar), excludes)
		bar.end()
		if err := out.finish(err); err != nil {
			return err
		}
		if saved.Skipped > 0 || saved.Changed > 0 {
			fmt.Fprintf(r.err, "shellctl: %d entries vanished or could not be read and are missing; %d changed while they were read\n", saved.Skipped, saved.Changed)
		}
		return r.print(saved, func() { fmt.Fprintf(r.out, "saved %d bytes, sha256 %s\n", saved.Bytes, saved.SHA256) })
	})
}

func runSnapshotRestore(c call) int {
	var o remoteOptions
	short := "Lay an archive over the home directory of a server; - is standard input.\nWhat the archive does not name stays."
	return jobCommand(c, "FILE|- [FLAGS]", short, &o, cobra.ExactArgs(1), nil, func(ctx context.Context, r *remote, args []string) error {
		in, size, err := openArchive(c.stdin, args[0])
		if err != nil {
			return err
		}
		defer in.Close() // only read from
		bar := newProgress(c.stderr, "restoring", size)
		restored, err := r.RestoreHome(ctx, io.TeeReader(in, bar), size)
		bar.end()
		if err != nil {
			return err
		}
		return r.print(restored, func() {
			fmt.Fprintf(r.out, "restored %d entries with %d bytes\n", restored.Entries, restored.Bytes)
		})
	})
}

// openArchive opens a file to read, and tells its size or -1.
func openArchive(stdin *os.File, path string) (*os.File, int64, error) {
	if path == "-" {
		if isTerminal(stdin) {
			return nil, 0, errors.New("read archive: standard input is a terminal")
		}
		return stdin, -1, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("read archive: %w", err)
	}
	st, err := f.Stat()
	if err == nil && st.IsDir() {
		err = fmt.Errorf("%s is a directory", path)
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("read archive: %w", err), f.Close())
	}
	if !st.Mode().IsRegular() {
		return f, -1, nil
	}
	return f, st.Size(), nil
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
