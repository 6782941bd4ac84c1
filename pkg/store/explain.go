package store

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// explain makes an error of a full disk look as that of any file does.
func explain(err error) error {
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code()&0xFF == sqlite3.SQLITE_FULL {
		return fmt.Errorf("%w: %w", unix.ENOSPC, err)
	}
	return err
}
