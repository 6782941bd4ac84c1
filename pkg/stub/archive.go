package stub

import (
	"archive/zip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
)

const (
	skillText    = "SKILL.md"
	skillArchive = ".DIFY-SKILL-FULL.zip" // how a drive keeps a whole skill
	zipType      = "application/zip"
)

// archive is a directory about to be sent as a zip file.
//
// The zip is written twice: once to learn its length, which the upload must
// announce, and once to send it. So it needs neither memory nor room on the
// disk, which in a job is the very tree being packed.
type archive struct {
	dir   *os.Root
	path  string // of dir, for messages
	files []archiveFile
}

// archiveFile is a file as it was when the directory was walked.
type archiveFile struct {
	name string // slash-separated, below the directory
	info fs.FileInfo
}

// openArchive makes a source called name of the directory at path.
func openArchive(path, name string) (*source, error) {
	if err := checkPartName(name); err != nil {
		return nil, err
	}
	a, err := walkArchive(path)
	if err != nil {
		return nil, fmt.Errorf("create skill archive: %w", err)
	}
	var size countWriter
	if err := a.write(&size); err != nil {
		a.dir.Close()
		return nil, fmt.Errorf("create skill archive: %w", err)
	}
	return &source{name: validText(name), mime: zipType, size: int64(size), content: a.reader()}, nil
}

// walkArchive lists the files of a directory in lexical order. The directory
// and everything in it must be what it seems: no links.
func walkArchive(dir string) (*archive, error) {
	files, err := listTree(dir, skippedFile, "archive does not support symlinked files")
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &archive{dir: root, path: dir, files: files}, nil
}

// listTree lists the regular files below dir in lexical order, without caches
// and without the files to skip. refusal says what is wrong with a symlink.
func listTree(dir string, skip func(name string) bool, refusal string) ([]archiveFile, error) {
	var files []archiveFile
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if p != dir && skippedDir(d.Name()) {
				return fs.SkipDir
			}
			return nil
		case skip(d.Name()):
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s: %s", refusal, p)
		case !d.Type().IsRegular():
			return fmt.Errorf("not a regular file: %s", p)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		files = append(files, archiveFile{name: filepath.ToSlash(rel), info: info})
		return err
	})
	return files, err
}

func skippedDir(name string) bool {
	switch name {
	case ".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".venv", "node_modules":
		return true
	}
	return false
}

func skippedFile(name string) bool {
	return name == ".DS_Store" || name == skillArchive
}

// write writes the zip. For unchanged files it writes the same bytes each time.
func (a *archive) write(w io.Writer) error {
	z := zip.NewWriter(w)
	for _, f := range a.files {
		if err := a.add(z, f); err != nil {
			return err
		}
	}
	return z.Close()
}

func (a *archive) add(z *zip.Writer, f archiveFile) error {
	header, err := zip.FileInfoHeader(f.info)
	if err != nil {
		return err
	}
	header.Name = f.name
	header.Method = zip.Deflate
	in, err := a.open(f)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := z.CreateHeader(header)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(in, f.info.Size()+1))
	if err == nil && n != f.info.Size() {
		err = a.changed(f)
	}
	return err
}

// open opens a file of the list if it is still the one that was listed. It
// neither follows a link nor waits for the writer of a FIFO put in its place.
func (a *archive) open(f archiveFile) (*os.File, error) {
	in, err := a.dir.OpenFile(f.name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	now, err := in.Stat()
	if err == nil && (!os.SameFile(now, f.info) || now.Size() != f.info.Size() || !now.ModTime().Equal(f.info.ModTime())) {
		err = a.changed(f)
	}
	if err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

func (a *archive) changed(f archiveFile) error {
	return fmt.Errorf("file changed while it was archived: %s", path.Join(a.path, f.name))
}

// reader returns the zip as a stream. Closing it closes the archive.
func (a *archive) reader() io.ReadCloser {
	return &archiveReader{archive: a, done: make(chan struct{})}
}

// countWriter counts what is written to it.
type countWriter int64

func (c *countWriter) Write(p []byte) (int, error) {
	*c += countWriter(len(p))
	return len(p), nil
}
