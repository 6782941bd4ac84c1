package stub

import (
	"io"
	"sync"
)

// archiveReader reads the zip of an archive while it is written. The writer
// starts with the first Read, so a source that is never sent costs nothing.
type archiveReader struct {
	archive *archive

	once sync.Once
	pipe *io.PipeReader
	done chan struct{} // closed when the writer has ended, or will never start
}

func (r *archiveReader) Read(p []byte) (int, error) {
	r.once.Do(r.start)
	if r.pipe == nil {
		return 0, io.ErrClosedPipe
	}
	return r.pipe.Read(p)
}

func (r *archiveReader) start() {
	pipe, w := io.Pipe()
	r.pipe = pipe
	go func() {
		defer close(r.done)
		w.CloseWithError(r.archive.write(w))
	}()
}

// Close ends the writer and waits for it.
func (r *archiveReader) Close() error {
	r.once.Do(func() { close(r.done) })
	if r.pipe != nil {
		r.pipe.Close()
	}
	<-r.done
	return r.archive.dir.Close()
}
