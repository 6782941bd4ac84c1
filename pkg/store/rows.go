package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"shellctl/pkg/job"
)

// Row is the record of one job.
type Row struct {
	ID       job.ID
	Mode     job.Mode
	Cwd      string
	Terminal job.Terminal
	Status   job.Status
	ExitCode *int
	Reason   string
	Message  string
	Created  time.Time
	Started  time.Time // zero: not yet
	Ended    time.Time // zero: not yet

	// Where to find the job's runner again. A process is the one recorded only
	// if its start time and the boot agree too: pids are reused.
	RunnerPID   int
	RunnerStart uint64 // clock ticks after boot, field 22 of /proc/PID/stat
	BootID      string
	ControlPath string
	Cgroup      string // directory of the job's control group; empty: it has none
	Mark        uint64 // of the job's processes

	// What makes a repeated request find the job it made before.
	RequestKey  string // chosen by the client; empty: none
	RequestHash []byte // of what the job was asked to be
}

const insertSQL = `INSERT INTO jobs (job_id, mode, cwd, terminal_cols, terminal_rows, status, exit_code, reason, message,
	created_at, started_at, ended_at, updated_at, runner_pid, runner_start, boot_id, control_path, cgroup, mark, request_key, request_hash)
	VALUES (?, ?, ?, ?, ?, ?, ?, NULLIF(?, ''), NULLIF(?, ''), ?, ?, ?, ?, ?, ?, ?, ?, NULLIF(?, ''), ?, NULLIF(?, ''), ?)`

const selectSQL = `SELECT job_id, mode, cwd, terminal_cols, terminal_rows, status, exit_code, COALESCE(reason, ''), COALESCE(message, ''),
	created_at, started_at, ended_at, COALESCE(runner_pid, 0), COALESCE(runner_start, 0), COALESCE(boot_id, ''), COALESCE(control_path, ''), COALESCE(cgroup, ''), COALESCE(mark, 0),
	COALESCE(request_key, ''), request_hash FROM jobs`

// An end before the start is a step of the wall clock, and no duration is negative.
const finishSQL = `UPDATE jobs SET status = ?, exit_code = ?, reason = NULLIF(?, ''), message = NULLIF(?, ''), ended_at = max(?, COALESCE(started_at, '')), updated_at = ?
	WHERE job_id = ? AND ` + live

// Insert adds a row.
func (s *Store) Insert(ctx context.Context, r Row) error {
	_, err := s.insert.ExecContext(ctx, r.ID, r.Mode, r.Cwd, r.Terminal.Cols, r.Terminal.Rows, r.Status, r.ExitCode, r.Reason, r.Message,
		formatTime(r.Created), formatTime(r.Started), formatTime(r.Ended), formatTime(r.Created),
		r.RunnerPID, int64(r.RunnerStart), r.BootID, r.ControlPath, r.Cgroup, int64(r.Mark), r.RequestKey, r.RequestHash)
	if err != nil {
		return fmt.Errorf("insert job: %w", explain(err))
	}
	return nil
}

// Finish records the end of a job, unless one is recorded already. It reports
// whether this call did; an unknown job is an error with [job.CodeJobNotFound].
func (s *Store) Finish(ctx context.Context, id job.ID, e job.Exit) (bool, error) {
	ended := formatTime(e.EndedAt)
	res, err := s.finish.ExecContext(ctx, e.Status, e.Code, e.Reason, e.Message, ended, ended, id)
	if err != nil {
		return false, fmt.Errorf("record exit: %w", explain(err))
	}
	n, err := res.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("record exit: %w", err)
	}
	if n == 1 {
		return true, nil
	}
	if _, err := s.Get(ctx, id); err != nil {
		return false, err
	}
	return false, nil
}

// Get returns the row of a job, or an error with [job.CodeJobNotFound].
func (s *Store) Get(ctx context.Context, id job.ID) (Row, error) {
	r, err := scan(s.get.QueryRowContext(ctx, id))
	if errors.Is(err, sql.ErrNoRows) {
		return Row{}, job.Unknown()
	}
	if err != nil {
		return Row{}, fmt.Errorf("read job: %w", err)
	}
	return r, nil
}

// ByKey returns the row that a request with this key made, or an error with
// [job.CodeJobNotFound].
func (s *Store) ByKey(ctx context.Context, key string) (Row, error) {
	rows, err := s.query(ctx, selectSQL+` WHERE request_key = ?`, key)
	if err != nil {
		return Row{}, err
	}
	if len(rows) == 0 {
		return Row{}, job.Unknown()
	}
	return rows[0], nil
}

// List returns up to limit rows, the newest first. An empty status means all.
func (s *Store) List(ctx context.Context, status job.Status, limit int) ([]Row, error) {
	// Rows are only ever added with a higher rowid, so its order is that of creation.
	return s.query(ctx, selectSQL+` WHERE ?1 = '' OR status = ?1 ORDER BY rowid DESC LIMIT ?2`, status, limit)
}

// Live returns the rows without a terminal state.
func (s *Store) Live(ctx context.Context) ([]Row, error) {
	return s.query(ctx, selectSQL+` WHERE `+live)
}

// Ended is when a job in a terminal state ended.
type Ended struct {
	ID job.ID
	At time.Time
}

// Ended returns all jobs in a terminal state, those that ended first before the others.
func (s *Store) Ended(ctx context.Context) ([]Ended, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT job_id, ended_at FROM jobs WHERE NOT `+live+` ORDER BY ended_at`)
	if err != nil {
		return nil, fmt.Errorf("list ended jobs: %w", err)
	}
	defer rows.Close() // its error is that of rows.Err
	var out []Ended
	for rows.Next() {
		var e Ended
		var at sql.NullString
		if err := rows.Scan(&e.ID, &at); err != nil {
			return nil, fmt.Errorf("list ended jobs: %w", err)
		}
		e.At = parseTime(at)
		out = append(out, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list ended jobs: %w", err)
	}
	return out, nil
}

// Delete removes the row of a job and reports whether there was one.
func (s *Store) Delete(ctx context.Context, id job.ID) (bool, error) {
	res, err := s.del.ExecContext(ctx, id)
	if err != nil {
		return false, fmt.Errorf("delete job: %w", explain(err))
	}
	n, err := res.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("delete job: %w", err)
	}
	return n == 1, nil
}

func (s *Store) query(ctx context.Context, q string, args ...any) ([]Row, error) {
	rows, err := s.db.QueryContext(ctx, q, args...)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	defer rows.Close() // its error is that of rows.Err
	var out []Row
	for rows.Next() {
		r, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("list jobs: %w", err)
		}
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	return out, nil
}

func scan(row interface{ Scan(...any) error }) (Row, error) {
	var r Row
	var created, started, ended sql.NullString
	var start, mark int64
	err := row.Scan(&r.ID, &r.Mode, &r.Cwd, &r.Terminal.Cols, &r.Terminal.Rows, &r.Status, &r.ExitCode, &r.Reason, &r.Message,
		&created, &started, &ended, &r.RunnerPID, &start, &r.BootID, &r.ControlPath, &r.Cgroup, &mark, &r.RequestKey, &r.RequestHash)
	if err != nil {
		return Row{}, err
	}
	r.Created, r.Started, r.Ended = parseTime(created), parseTime(started), parseTime(ended)
	r.RunnerStart, r.Mark = uint64(start), uint64(mark)
	return r, nil
}
