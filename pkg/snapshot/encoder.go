package snapshot

import (
	"io"
	"runtime"

	"github.com/klauspost/compress/zstd"
)

// sweepEvery is how much of the tar stream goes between two collections.
const sweepEvery = 32 << 20

// sweeper has the garbage collected while a stream passes. The encoder lets go
// of its buffers as it makes them, and the collector left to itself lets as much
// garbage stand as there is memory in use.
type sweeper struct {
	w io.Writer
	n int // bytes since the last collection
}

func (s *sweeper) Write(p []byte) (int, error) {
	if s.n += len(p); s.n > sweepEvery {
		s.n = 0
		runtime.GC()
	}
	return s.w.Write(p)
}

// newEncoder returns an encoder of one frame that uses all cores. The fastest
// level stands beside zstd -3: it packs a mixed home as well to a few parts in
// a hundred and takes less time, while the next level takes more.
func newEncoder(w io.Writer) (*zstd.Encoder, error) {
	workers, window := encoderSize(runtime.GOMAXPROCS(0))
	return zstd.NewWriter(w,
		zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithAllLitEntropyCompression(true),
		zstd.WithWindowSize(window),
		zstd.WithEncoderConcurrency(workers),
		zstd.WithConcurrentBlocks(true),
		zstd.WithLowerEncoderMem(true),
	)
}

// encoderSize keeps the memory of a save near 100 MB on any number of cores:
// each worker has a few sections of four windows in flight.
func encoderSize(cores int) (workers, window int) {
	switch {
	case cores <= 2:
		return cores, 1 << 20
	case cores <= 4:
		return cores, 512 << 10
	}
	return min(cores, 8), 256 << 10
}
