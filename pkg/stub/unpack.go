package stub

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// unpackLimits bound what an archive may become.
type unpackLimits struct {
	entries   int
	size      int64 // bytes of all files
	ratio     int64 // size over the size of the archive, once freeSize is passed
	freeSize  int64
	directory int64 // bytes read to learn the list of entries
}

func defaultUnpackLimits() unpackLimits {
	return unpackLimits{entries: 10_000, size: 1 << 30, ratio: 200, freeSize: 16 << 20, directory: 16 << 20}
}

var errUnpackSize = errors.New("archive is too large when unpacked")

// unpacker extracts one zip file below a directory.
type unpacker struct {
	dir     *os.Root
	limits  unpackLimits
	size    int64 // of the archive
	written int64
}

// unpack extracts the zip file in r, of size bytes, below dir, which should be
// a fresh directory: what is extracted before an error stays.
func unpack(ctx context.Context, dir *os.Root, r io.ReaderAt, size int64, limits unpackLimits) error {
	metered := &meteredReaderAt{r: r, left: limits.directory}
	z, err := zip.NewReader(metered, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // names are checked one by one below
		return err
	}
	metered.free = true
	if len(z.File) > limits.entries {
		return fmt.Errorf("archive has more than %d entries", limits.entries)
	}
	u := unpacker{dir: dir, limits: limits, size: size}
	for _, f := range z.File {
		if err := checkEntry(f); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return cause(ctx, ctx.Err())
		}
		if err := u.extract(f); err != nil {
			return err
		}
	}
	return nil
}

// checkEntry refuses entries that are not a plain file or directory below the
// directory to extract to.
func checkEntry(f *zip.File) error {
	name := strings.TrimSuffix(f.Name, "/")
	switch {
	case path.IsAbs(f.Name), strings.Contains("/"+name+"/", "/../"):
		return fmt.Errorf("archive entry escapes target directory: %s", shown(f.Name))
	case name == "", strings.ContainsAny(name, "\\\x00"):
		return fmt.Errorf("archive entry has an unsafe name: %s", shown(f.Name))
	case f.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("archive entry is a symlink: %s", shown(f.Name))
	case f.Mode()&fs.ModeType&^fs.ModeDir != 0:
		return fmt.Errorf("archive entry is a special file: %s", shown(f.Name))
	}
	return nil
}

func (u *unpacker) extract(f *zip.File) error {
	name := path.Clean(f.Name)
	if f.Mode().IsDir() {
		return u.dir.MkdirAll(name, 0o755)
	}
	if err := u.dir.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if u.tooLarge(f.UncompressedSize64) {
		return errUnpackSize // the header admits it: do not begin
	}
	in, err := f.Open()
	if err != nil {
		return fmt.Errorf("open archive entry %s: %w", shown(f.Name), err)
	}
	defer in.Close()
	mode := 0o644 | f.Mode()&0o111 // scripts stay executable
	out, err := u.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(&limitedFile{file: out, u: u}, in)
	if err2 := out.Close(); err == nil {
		err = err2
	}
	if err != nil && !errors.Is(err, errUnpackSize) {
		return fmt.Errorf("extract archive entry %s: %w", shown(f.Name), err)
	}
	return err
}

// tooLarge reports whether n more bytes would pass a limit.
func (u *unpacker) tooLarge(n uint64) bool {
	if n > uint64(u.limits.size) {
		return true
	}
	total := u.written + int64(n)
	return total > u.limits.size || total > u.limits.freeSize && total/u.limits.ratio > u.size
}

// limitedFile counts what a zip entry really expands to: its header may lie.
type limitedFile struct {
	file *os.File
	u    *unpacker
}

func (f *limitedFile) Write(p []byte) (int, error) {
	if f.u.tooLarge(uint64(len(p))) {
		return 0, errUnpackSize
	}
	n, err := f.file.Write(p)
	f.u.written += int64(n)
	return n, err
}

// meteredReaderAt stops reading after left bytes until it is free. The zip
// package reads the whole list of entries before it tells their number.
type meteredReaderAt struct {
	r    io.ReaderAt
	left int64
	free bool
}

func (m *meteredReaderAt) ReadAt(p []byte, off int64) (int, error) {
	if !m.free {
		if m.left -= int64(len(p)); m.left < 0 {
			return 0, errors.New("archive has too long a list of entries")
		}
	}
	return m.r.ReadAt(p, off)
}
