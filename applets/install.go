package applets

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"shellctl/pkg/proctree"
)

// programMode lets every user execute the product.
const programMode = 0o755

type installOptions struct {
	into    string
	symlink bool
}

func runInstall(c call) int {
	var o installOptions
	cmd := newCommand(c, "--into DIR [--symlink]", "Put this program into a directory under all its names, one file and links to it.\nWhat has these names already is replaced at once, also while it runs.")
	cmd.Args = cobra.NoArgs
	cmd.Flags().StringVar(&o.into, "into", "", "directory to install into, made if needed")
	cmd.Flags().BoolVar(&o.symlink, "symlink", false, "make symbolic links instead of hard links")
	cmd.RunE = func(*cobra.Command, []string) error {
		if o.into == "" {
			return errors.New("--into is missing")
		}
		return install(o, c.stdout)
	}
	return execute(c, cmd)
}

// install needs no shell and no other program, so that an image without any can
// be made with it. It prints the names it made.
func install(o installOptions, out io.Writer) error {
	if err := os.MkdirAll(o.into, programMode); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	program := filepath.Join(o.into, "shellctl")
	if err := installProgram(program); err != nil {
		return fmt.Errorf("install %s: %w", program, err)
	}
	fmt.Fprintln(out, program)
	link := os.Link
	if o.symlink {
		program, link = "shellctl", os.Symlink // relative: the directory may be moved
	}
	for _, a := range table() {
		if a.installed == "" {
			continue
		}
		name := filepath.Join(o.into, a.installed)
		err := replace(name, func(temp string) error { return link(program, temp) })
		if err != nil {
			return fmt.Errorf("link %s: %w", name, err)
		}
		fmt.Fprintln(out, name)
	}
	return nil
}

// installProgram copies the running program to path, if that is another file.
func installProgram(path string) error {
	self, err := os.Open(proctree.Self)
	if err != nil {
		return err
	}
	defer self.Close() // only read from
	from, err := self.Stat()
	if err != nil {
		return err
	}
	if to, err := os.Lstat(path); err == nil && os.SameFile(from, to) {
		return nil
	}
	return replace(path, func(temp string) error { return copyProgram(self, temp) })
}

func copyProgram(from io.Reader, path string) error {
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, programMode)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	// Once more, since the umask may have taken the right to execute it.
	return errors.Join(err, to.Chmod(programMode), to.Close())
}

// replace puts what put makes at path, in one step: at no time is there nothing.
func replace(path string, put func(temp string) error) error {
	temp := fmt.Sprintf("%s.new-%d", path, os.Getpid())
	err := put(temp)
	if err == nil {
		err = os.Rename(temp, path)
	}
	// Also after success: a rename of a file to another name of itself does nothing.
	if rerr := os.Remove(temp); !errors.Is(rerr, os.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}
