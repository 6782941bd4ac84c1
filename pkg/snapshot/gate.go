package snapshot

import (
	"io"
	"sync"
)

// gate passes writes on until it is shut.
type gate struct {
	mu  sync.Mutex
	w   io.Writer
	err error // why it is shut, or nil
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return 0, g.err
	}
	n, err := g.w.Write(p)
	if err != nil {
		g.err = err
	}
	return n, err
}

func (g *gate) shut(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
	}
}

// failed reports whether a write failed or the gate was shut.
func (g *gate) failed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err != nil
}
