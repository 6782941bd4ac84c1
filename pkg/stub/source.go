package stub

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

const unknownType = "application/octet-stream"

// source is one file to upload.
type source struct {
	name    string // as told to the stub and in the part: the signature covers it
	mime    string // likewise
	size    int64  // or -1 if only the end of content tells
	content io.ReadCloser
}

// openFile opens the file at path, an absolute path, for an upload.
func openFile(path string) (*source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open file: %w", err)
	}
	s, err := fileSource(f, filepath.Base(path))
	if err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// fileSource makes a source of an open file.
func fileSource(f *os.File, name string) (*source, error) {
	if err := checkPartName(name); err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("stat file: %w", err)
	}
	s := &source{name: validText(name), mime: guessType(name), size: -1, content: f}
	if fi.Mode().IsRegular() {
		s.size = fi.Size()
	}
	if s.size == 0 {
		// Files of /proc say 0 and have content.
		s.content, s.size = peek(f)
	}
	return s, nil
}

// peek tells an empty file (size 0) from one of unknown size (-1).
func peek(f *os.File) (io.ReadCloser, int64) {
	r := bufio.NewReader(f)
	size := int64(-1)
	if _, err := r.Peek(1); errors.Is(err, io.EOF) {
		size = 0
	}
	return struct {
		io.Reader
		io.Closer
	}{r, f}, size
}

// checkPartName refuses names that the header of a part cannot carry.
func checkPartName(name string) error {
	if strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("file name has a control character: %q", name)
	}
	return nil
}

// validText is s as encoding/json writes it, so that a name is the same in the
// JSON request and in the header of the part.
func validText(s string) string {
	return strings.ToValidUTF8(s, "\uFFFD")
}

// guessType returns the MIME type for a file name, without parameters.
func guessType(name string) string {
	kind, _, _ := strings.Cut(mime.TypeByExtension(filepath.Ext(name)), ";")
	if kind = strings.TrimSpace(kind); kind == "" {
		return unknownType
	}
	return kind
}
