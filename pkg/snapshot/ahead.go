package snapshot

import "io"

const (
	aheadBuffer = 256 << 10
	aheadCount  = 16
)

// ahead reads a stream in a goroutine of its own, a few buffers in front of its
// reader: the decoder goes on while small files are made, which takes the
// system longer than their bytes do.
type ahead struct {
	full  chan chunk
	empty chan []byte
	quit  chan struct{}
	cur   chunk
	pos   int
}

// chunk is what was read, and the error after it.
type chunk struct {
	buf []byte
	err error
}

func newAhead(r io.Reader) *ahead {
	a := &ahead{
		full:  make(chan chunk, aheadCount),
		empty: make(chan []byte, aheadCount),
		quit:  make(chan struct{}),
	}
	for range aheadCount {
		a.empty <- nil // allocated when first needed
	}
	go a.run(r)
	return a
}

func (a *ahead) run(r io.Reader) {
	defer close(a.full)
	for {
		var buf []byte
		select {
		case <-a.quit:
			return
		case buf = <-a.empty:
		}
		if buf == nil {
			buf = make([]byte, aheadBuffer)
		}
		n, err := fill(r, buf[:aheadBuffer])
		a.full <- chunk{buf[:n], err} // has room for all buffers
		if err != nil {
			return
		}
	}
}

func (a *ahead) Read(p []byte) (int, error) {
	for a.pos == len(a.cur.buf) {
		if a.cur.err != nil {
			return 0, a.cur.err
		}
		if a.cur.buf != nil {
			a.empty <- a.cur.buf[:0]
		}
		a.cur, a.pos = <-a.full, 0
	}
	n := copy(p, a.cur.buf[a.pos:])
	a.pos += n
	return n, nil
}

// close waits for the goroutine, which ends after its current read.
func (a *ahead) close() {
	close(a.quit)
	for range a.full {
	}
}

// fill reads until p is full. Unlike io.ReadFull it leaves the error as it is:
// an end is not the same as a broken stream.
func fill(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var k int
		k, err = r.Read(p[n:])
		n += k
	}
	return n, err
}
