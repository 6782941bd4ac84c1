package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// past is a deadline that ends whatever waits for the connection.
var past = time.Unix(1, 0)

// operation is a save or restore with its limits. Its context ends with the
// deadline, with a client that stalls or one that leaves, and then the
// connection is cut off too: pkg/snapshot returns only when its reader or
// writer does, and the gate is held that long.
type operation struct {
	ctx    context.Context
	end    func() // must be called, once or more; then the connection is not cut off any more
	idle   time.Duration
	stalls *time.Timer // runs while the connection is waited for; nil: no limit
}

// begin starts the clock. cut sets the deadline of the direction of the
// connection that the operation uses.
func (s *snapshots) begin(parent context.Context, cut func(time.Time) error) *operation {
	timed, stop := context.WithTimeoutCause(context.WithoutCancel(parent), s.cfg.Timeout,
		overdue("the snapshot was not done within %v", s.cfg.Timeout))
	ctx, cancel := context.WithCancelCause(timed)
	forget := context.AfterFunc(parent, func() { cancel(errLeft) })
	op := &operation{ctx: ctx, idle: s.cfg.IdleTimeout}
	if op.idle > 0 {
		op.stalls = time.AfterFunc(op.idle, func() { cancel(overdue("the client stalled for %v", op.idle)) })
		op.stalls.Stop()
	}
	isCut := make(chan struct{})
	keep := context.AfterFunc(ctx, func() {
		defer close(isCut)
		_ = cut(past) // the client is gone, if it fails
	})
	op.end = sync.OnceFunc(func() {
		if !keep() {
			<-isCut
		}
		forget()
		cancel(nil)
		stop()
	})
	return op
}

// errLeft is no [context.Canceled]: who has only shut down one half of the
// connection gets an answer.
var errLeft = errors.New("the client has left")

// overdue is the cause of a context that took too long.
func overdue(format string, d time.Duration) error {
	return fmt.Errorf(format+": %w", d, os.ErrDeadlineExceeded)
}

// wait calls what may wait for the client.
func (op *operation) wait(call func([]byte) (int, error), p []byte) (int, error) {
	if op.stalls != nil {
		op.stalls.Reset(op.idle)
		defer op.stalls.Stop()
	}
	return call(p)
}

func (op *operation) reader(r io.Reader) io.Reader { return limitedReader{op, r} }
func (op *operation) writer(w io.Writer) io.Writer { return limitedWriter{op, w} }

type limitedReader struct {
	op *operation
	r  io.Reader
}

func (l limitedReader) Read(p []byte) (int, error) { return l.op.wait(l.r.Read, p) }

type limitedWriter struct {
	op *operation
	w  io.Writer
}

func (l limitedWriter) Write(p []byte) (int, error) { return l.op.wait(l.w.Write, p) }
