// Package store keeps the record of jobs in SQLite: one row a job.
//
// A job's first terminal state wins: every transition is one conditional UPDATE,
// so a server and a runner-exit that report the same end, or two different ends,
// leave exactly one.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite" // also the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"shellctl/pkg/job"
)

// FileName is the name of the database in the state directory.
const FileName = "shellctl.db"

const (
	// applicationID marks a database as ours: "shct" in ASCII.
	applicationID = 0x73686374
	schemaVersion = 1

	// DefaultBusyTimeout is how long a writer waits for another one.
	DefaultBusyTimeout = 5 * time.Second
)

const schema = `
CREATE TABLE jobs (
	job_id        TEXT PRIMARY KEY,
	mode          TEXT NOT NULL,
	cwd           TEXT NOT NULL,
	terminal_cols INTEGER NOT NULL,
	terminal_rows INTEGER NOT NULL,
	status        TEXT NOT NULL,
	exit_code     INTEGER,
	reason        TEXT,
	message       TEXT,
	created_at    TEXT NOT NULL,
	started_at    TEXT,
	ended_at      TEXT,
	updated_at    TEXT NOT NULL,
	runner_pid    INTEGER,
	runner_start  INTEGER,
	boot_id       TEXT,
	control_path  TEXT,
	cgroup        TEXT,
	mark          INTEGER,
	request_key   TEXT,
	request_hash  BLOB
);
CREATE UNIQUE INDEX jobs_request ON jobs(request_key) WHERE request_key IS NOT NULL;
CREATE INDEX jobs_live ON jobs(status) WHERE status IN ('created', 'starting', 'running');
CREATE INDEX jobs_status ON jobs(status);
`

// live is the condition under which a row may still change its state.
const live = `status IN ('created', 'starting', 'running')`

// Store is an open record. Its methods may be called from any goroutine.
type Store struct {
	db     *sql.DB
	insert *sql.Stmt
	finish *sql.Stmt
	get    *sql.Stmt
	del    *sql.Stmt
}

// Open opens the record in the state directory and creates it where there is
// none. A file that is no record of ours, is of another version or is damaged is
// set aside under a name with the time, with a warning, and a new one begun.
func Open(ctx context.Context, stateDir string, log *slog.Logger) (*Store, error) {
	path := filepath.Join(stateDir, FileName)
	if _, err := os.Lstat(path); err == nil {
		if why := unusable(ctx, path); why != nil {
			if passing(why) {
				return nil, fmt.Errorf("open database: %w", why)
			}
			aside, err := setAside(path, time.Now())
			if err != nil {
				return nil, fmt.Errorf("set aside database: %w", err)
			}
			log.Warn("the database is not usable and was set aside", "path", path, "aside", aside, "reason", why)
		}
	}
	s, err := open(ctx, path, DefaultBusyTimeout, ours()...)
	if err != nil {
		return nil, err
	}
	if err := s.create(ctx); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, s.prepare(ctx)
}

// OpenExisting opens a record that another process made. It creates nothing.
func OpenExisting(ctx context.Context, stateDir string, busy time.Duration) (*Store, error) {
	path := filepath.Join(stateDir, FileName)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := unusable(ctx, path); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	s, err := open(ctx, path, busy, ours()...)
	if err != nil {
		return nil, err
	}
	return s, s.prepare(ctx)
}

// open opens the file with one connection: SQLite has one writer anyway, and
// a single connection keeps the memory of the page cache in one place.
func open(ctx context.Context, path string, busy time.Duration, pragmas ...string) (*Store, error) {
	q := url.Values{"_pragma": append(pragmas, fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds())), "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open database: %w", err), db.Close())
	}
	return &Store{db: db}, nil
}

// ours are the settings of a record of our own. A foreign file is looked at
// without them, since journal_mode would change it.
func ours() []string {
	return []string{
		"journal_mode(WAL)",
		"synchronous(NORMAL)", // survives a killed process; a power cut may cost the last rows, never the file
		"cache_size(-512)",    // KiB
		"wal_autocheckpoint(256)",
	}
}

// create lays out an empty database.
func (s *Store) create(ctx context.Context) error {
	var version int
	if err := s.db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if version == schemaVersion {
		return nil
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("create schema: %w", err)
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf("%s PRAGMA application_id = %d; PRAGMA user_version = %d;", schema, applicationID, schemaVersion))
	if err != nil {
		return errors.Join(fmt.Errorf("create schema: %w", err), tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("create schema: %w", err)
	}
	return nil
}

func (s *Store) prepare(ctx context.Context) error {
	for _, p := range []struct {
		to  **sql.Stmt
		sql string
	}{
		{&s.insert, insertSQL},
		{&s.finish, finishSQL},
		{&s.get, selectSQL + ` WHERE job_id = ?`},
		{&s.del, `DELETE FROM jobs WHERE job_id = ?`},
	} {
		st, err := s.db.PrepareContext(ctx, p.sql)
		if err != nil {
			return errors.Join(fmt.Errorf("prepare statement: %w", err), s.db.Close())
		}
		*p.to = st
	}
	return nil
}

// Close closes the record.
func (s *Store) Close() error { return s.db.Close() }

// unusable says why the file at path can not be used as our record, or nil.
func unusable(ctx context.Context, path string) error {
	st, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	s, err := open(ctx, path, DefaultBusyTimeout)
	if err != nil {
		return err
	}
	defer s.db.Close() // only read from
	var app, version, tables int
	row := s.db.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)`)
	if err := row.Scan(&app, &version, &tables); err != nil {
		return err
	}
	switch {
	case app == 0 && version == 0 && tables == 0:
		return nil // empty: the server was killed before it made the schema
	case app != applicationID:
		return errors.New("made by another program")
	case version != schemaVersion:
		return fmt.Errorf("schema version %d, want %d", version, schemaVersion)
	}
	var check string
	if err := s.db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&check); err != nil {
		return err
	}
	if check != "ok" {
		return fmt.Errorf("damaged: %s", check)
	}
	return nil
}

// passing reports whether an error tells of the moment, as a full disk or the end
// of ctx do, and not of the file. It is no reason to give a record up.
func passing(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok || e.Code() == sqlite3.SQLITE_IOERR_SHORT_READ { // the file is too short
		return false
	}
	switch e.Code() & 0xFF { // without the extended part
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT,
		sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY:
		return true
	}
	return false
}

// setAside renames the database and its companions.
func setAside(path string, now time.Time) (string, error) {
	aside := path + "." + now.UTC().Format("20060102T150405.000Z")
	if err := os.Rename(path, aside); err != nil {
		return "", err
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Rename(path+suffix, aside+suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	return aside, nil
}

// formatTime and parseTime are the form of times in the record.
func formatTime(t time.Time) sql.NullString {
	return sql.NullString{String: t.UTC().Format(job.TimeFormat), Valid: !t.IsZero()}
}

func parseTime(s sql.NullString) time.Time {
	t, err := time.Parse(job.TimeFormat, s.String)
	if err != nil {
		return time.Time{} // NULL, or written by hand: shown as absent
	}
	return t
}
