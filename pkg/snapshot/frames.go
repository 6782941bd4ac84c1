package snapshot

import (
	"io"
	"runtime"

	"github.com/klauspost/compress/zstd"
)

// frameSize is how much of the tar stream goes into one frame.
const frameSize = 64 << 20

// frames compresses a stream into zstd frames, which a decoder joins again. A
// usual home is one frame, packed with the encoder's default level. Of a large
// one every second frame is packed with the fastest level: the default alone
// takes a little longer than zstd -3, the fastest alone packs text much worse.
type frames struct {
	w    io.Writer
	enc  *zstd.Encoder
	n    int // frames begun
	left int // room in the current frame
}

func newFrames(w io.Writer) (*frames, error) {
	f := &frames{w: w}
	return f, f.begin()
}

func (f *frames) begin() (err error) {
	level := zstd.SpeedDefault
	if f.n++; f.n%2 == 0 {
		level = zstd.SpeedFastest
	}
	f.left = frameSize
	workers, window := encoderSize(runtime.GOMAXPROCS(0))
	f.enc, err = zstd.NewWriter(f.w,
		zstd.WithEncoderLevel(level),
		zstd.WithWindowSize(window),
		zstd.WithEncoderConcurrency(workers),
		zstd.WithConcurrentBlocks(true),
		zstd.WithLowerEncoderMem(true),
	)
	return err
}

// encoderSize keeps the memory of a save near 100 MB on any number of cores:
// each worker has a few sections of four windows in flight.
func encoderSize(cores int) (workers, window int) {
	if cores > 4 {
		return min(cores, 8), 256 << 10
	}
	return cores, 512 << 10
}

func (f *frames) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		if f.left == 0 {
			if err := f.next(); err != nil {
				return n, err
			}
		}
		k, err := f.enc.Write(p[:min(len(p), f.left)])
		n, p, f.left = n+k, p[k:], f.left-k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func (f *frames) next() error {
	if err := f.enc.Close(); err != nil {
		return err
	}
	// The buffers of the last encoder are garbage now, and the new one takes as
	// many. Left to itself the collector would let both stand.
	f.enc = nil
	runtime.GC()
	return f.begin()
}

// Close ends the last frame and the goroutines of its encoder.
func (f *frames) Close() error {
	if f.enc == nil {
		return nil // there was no next frame
	}
	return f.enc.Close()
}
