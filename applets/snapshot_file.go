package applets

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// archiveFile is where a save goes. A regular file gets its name only once it is
// complete, and then replaces what had it.
type archiveFile struct {
	io.Writer
	file  *os.File // nil: standard output, which is not ours
	final string   // the name at the end; empty: the file has it already
}

// createArchive makes the file of an archive, which its owner alone can read.
func createArchive(stdout io.Writer, path string) (*archiveFile, error) {
	if path == "-" {
		if isTerminal(stdout) {
			return nil, errors.New("write archive: standard output is a terminal")
		}
		return &archiveFile{Writer: stdout}, nil
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a link stays one
	}
	var f *os.File
	final := ""
	st, err := os.Stat(path)
	if err == nil && !st.Mode().IsRegular() {
		f, err = os.OpenFile(path, os.O_WRONLY, 0) // a device or FIFO must not be replaced
	} else {
		final = path
		f, err = os.CreateTemp(filepath.Dir(path), ".snapshot-*.part")
	}
	if err != nil {
		return nil, fmt.Errorf("write archive: %w", err)
	}
	return &archiveFile{Writer: f, file: f, final: final}, nil
}

// finish gives a complete archive its name, and removes one that failed.
func (a *archiveFile) finish(failure error) error {
	if a.file == nil {
		return failure
	}
	if a.final == "" {
		return errors.Join(failure, a.file.Close())
	}
	err := failure
	if err == nil {
		err = a.file.Sync()
	}
	err = errors.Join(err, a.file.Close())
	if err == nil {
		err = os.Rename(a.file.Name(), a.final)
	}
	switch {
	case failure != nil:
		return errors.Join(err, os.Remove(a.file.Name()))
	case err != nil:
		return errors.Join(fmt.Errorf("write archive: %w", err), os.Remove(a.file.Name()))
	}
	return nil
}
