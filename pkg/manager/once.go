package manager

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"sync"

	"shellctl/pkg/job"
)

// onceGate lets requests with the same key pass one at a time.
type onceGate struct {
	mu   sync.Mutex
	busy map[string]chan struct{} // closed when the key is free again
}

// enter waits until the key is free and takes it; leave frees it.
func (g *onceGate) enter(ctx context.Context, key string) (leave func(), err error) {
	for {
		g.mu.Lock()
		other := g.busy[key]
		if other == nil {
			mine := make(chan struct{})
			if g.busy == nil {
				g.busy = make(map[string]chan struct{})
			}
			g.busy[key] = mine
			g.mu.Unlock()
			return func() {
				g.mu.Lock()
				delete(g.busy, key)
				g.mu.Unlock()
				close(mine)
			}, nil
		}
		g.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// runOnce is Run for a request with a key: the first makes the job, a repeated
// one finds it, also after a restart. The key is kept with the job's row.
func (m *Manager) runOnce(ctx context.Context, r Request, cwd string, env [][]byte, w WaitOptions) (Result, error) {
	sum, err := fingerprint(r, cwd)
	if err != nil {
		r.Script.Discard()
		return Result{}, err
	}
	leave, err := m.once.enter(ctx, r.Key)
	if err != nil {
		r.Script.Discard()
		return Result{}, err
	}
	row, err := m.store.ByKey(ctx, r.Key)
	if isCode(err, job.CodeJobNotFound) {
		j, err := m.launch(r, cwd, env, sum)
		leave()
		if err != nil {
			return Result{}, err
		}
		return m.waitLive(ctx, j, w)
	}
	leave()
	r.Script.Discard()
	if err != nil {
		return Result{}, err
	}
	if !bytes.Equal(row.RequestHash, sum) {
		return Result{}, job.Errorf(job.CodeIdempotencyConflict, "this Idempotency-Key belongs to a different request, job %s", row.ID)
	}
	return m.Wait(ctx, row.ID, w)
}

// fingerprint is the same for requests that ask for the same job.
func fingerprint(r Request, cwd string) ([]byte, error) {
	h := sha256.New()
	field(h, []byte(r.Mode))
	field(h, []byte(cwd))
	field(h, fmt.Appendf(nil, "%dx%d", r.Terminal.Cols, r.Terminal.Rows))
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		field(h, []byte(name))
		field(h, []byte(r.Env[name]))
	}
	if r.Script.File == nil {
		field(h, r.Script.Text)
		return h.Sum(nil), nil
	}
	size, err := r.Script.File.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	length(h, size)
	if _, err := io.Copy(h, io.NewSectionReader(r.Script.File, 0, size)); err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	return h.Sum(nil), nil
}

// field adds bytes so that no two sequences of fields look the same.
func field(h hash.Hash, b []byte) {
	length(h, int64(len(b)))
	h.Write(b) // a hash never fails
}

func length(h hash.Hash, n int64) {
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))) // a hash never fails
}
