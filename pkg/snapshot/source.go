package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	// maxWindow is the largest window that restore gives memory to.
	maxWindow = 64 << 20

	// maxPadding is how many zeros may follow the end of an archive. GNU tar
	// fills up its last record, which has 10 KiB unless told otherwise.
	maxPadding = 16 << 20

	tarBlock = 512
)

// source is the tar stream of an archive. It tells a reader that failed from an
// archive that is broken, and sees how the stream ends.
type source struct {
	ctx   context.Context
	in    *input
	zstd  *zstd.Decoder
	ahead *ahead // reads zstd
	total int64
	ended bool // the last block read was all zeros
}

// input is the compressed stream. Its error is kept, since decoders report what
// is left unread in their own words, or not at all.
type input struct {
	ctx context.Context
	r   io.Reader

	mu  sync.Mutex // the decoder reads in a goroutine of its own
	err error      // why there is no more to read, other than io.EOF
}

func (in *input) Read(p []byte) (int, error) {
	err := checkContext(in.ctx)
	n := 0
	if err == nil {
		n, err = in.r.Read(p)
	}
	if err != nil && err != io.EOF {
		in.mu.Lock()
		in.err = err
		in.mu.Unlock()
	}
	return n, err
}

func (in *input) failure() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.err
}

func newSource(ctx context.Context, r io.Reader) (*source, error) {
	in := &input{ctx: ctx, r: r}
	dec, err := zstd.NewReader(in,
		zstd.WithDecoderConcurrency(min(runtime.GOMAXPROCS(0), 4)),
		zstd.WithDecoderMaxWindow(maxWindow),
		zstd.WithDecoderMaxMemory(1<<62),
		zstd.WithDecoderLowmem(true),
	)
	if err != nil {
		return nil, err
	}
	return &source{ctx: ctx, in: in, zstd: dec, ahead: newAhead(dec)}, nil
}

func (s *source) close() {
	s.ahead.close()
	s.zstd.Close()
}

func (s *source) Read(p []byte) (int, error) {
	if err := checkContext(s.ctx); err != nil {
		return 0, err
	}
	n, err := s.ahead.Read(p)
	s.total += int64(n)
	if n > 0 {
		s.ended = n == tarBlock && isZero(p[:n])
	}
	return n, err
}

// explain says whose fault an error of the stream is.
func (s *source) explain(err error) error {
	if isCoded(err) {
		return err
	}
	if ctxErr := checkContext(s.ctx); ctxErr != nil {
		return fmt.Errorf("read archive: %w", ctxErr)
	}
	if inErr := s.in.failure(); inErr != nil {
		return fmt.Errorf("read archive: %w", inErr)
	}
	return malformed("%w", err)
}

// finish checks what comes after the last entry: the blocks of zeros that end
// an archive, and nothing else. No bytes at all are an archive of no entries.
func (s *source) finish() error {
	if s.total > 0 && !s.ended {
		return s.explain(fmt.Errorf("no end of archive: %w", io.ErrUnexpectedEOF))
	}
	var block [4 << 10]byte
	for padding := 0; padding <= maxPadding; {
		n, err := s.Read(block[:])
		if !isZero(block[:n]) {
			return malformed("data after the end of the archive")
		}
		padding += n
		switch {
		case err == nil:
		case err == io.EOF && s.in.failure() == nil:
			return nil
		default: // an input cut where a frame ends looks like its end to the decoder
			return s.explain(err)
		}
	}
	return malformed("padding without end")
}

// isZero reports whether there is nothing but zeros in p.
func isZero(p []byte) bool {
	for len(p) > len(zeros) {
		if !bytes.Equal(p[:len(zeros)], zeros[:]) {
			return false
		}
		p = p[len(zeros):]
	}
	return bytes.Equal(p, zeros[:len(p)])
}
