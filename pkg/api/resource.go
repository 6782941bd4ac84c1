package api

import (
	"errors"

	"golang.org/x/sys/unix"

	"shellctl/pkg/job"
)

// explain returns the code of an error and its text for a client. One that is
// not meant for a client is internal, unless the machine ran out of something
// that comes back.
func explain(err error) (job.Code, string) {
	if e, ok := errors.AsType[*job.Error](err); ok {
		return e.Code, e.Message
	}
	code := job.CodeInternal
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		code = job.CodeDiskFull
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		code = job.CodeTooManyFiles
	}
	return code, err.Error()
}
