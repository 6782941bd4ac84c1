package snapshot

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"shellctl/pkg/job"
)

// failure is an error with a code for the client. Its cause stays visible to
// errors.Is, so that a deadline is recognisable at the edge.
type failure struct {
	public *job.Error
	cause  error
}

func (f *failure) Error() string   { return f.public.Message }
func (f *failure) Unwrap() []error { return []error{f.public, f.cause} }

// fail gives the error a code, unless it already carries one.
func fail(code job.Code, err error) error {
	if err == nil {
		return nil
	}
	if isCoded(err) {
		return err
	}
	return &failure{public: job.Errorf(code, "%v", err), cause: err}
}

// isCoded reports whether the error already says what a client is to see.
func isCoded(err error) bool {
	_, ok := errors.AsType[*job.Error](err)
	return ok
}

// malformed says what is wrong with the archive itself.
func malformed(format string, args ...any) error {
	return fail(job.CodeArchiveMalformed, fmt.Errorf("archive malformed: "+format, args...))
}

// vanished reports whether the error means that a name no longer stands for
// what the directory listing said: removed, or replaced by another type.
func vanished(err error) bool {
	switch errno(err) {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENXIO, unix.ENODEV, unix.ESTALE, unix.EINVAL:
		return true
	}
	return false
}

// unreadable reports whether the error concerns one entry only, so that a save
// can go on without it.
func unreadable(err error) bool {
	switch errno(err) {
	case unix.EACCES, unix.EPERM, unix.EBUSY, unix.EAGAIN:
		return true
	}
	return false
}

// errno returns the system's error in err, or 0.
func errno(err error) unix.Errno {
	n, _ := errors.AsType[unix.Errno](err)
	return n
}

// checkContext returns why the context ended, or nil.
func checkContext(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}
