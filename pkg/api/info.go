package api

import (
	"net/http"
	"time"

	"shellctl/pkg/isolation"
)

// Info is what a server says about itself. It names no secret, but it shows
// where the confinement of jobs is thin, so the token is asked for.
type Info struct {
	Version        string    `json:"version"`
	Platform       string    `json:"platform"`
	Kernel         string    `json:"kernel"`
	StartedAt      time.Time `json:"started_at"`
	StateDir       string    `json:"state_dir"`
	Authentication bool      `json:"authentication"` // a token is configured
	Isolation      Isolation `json:"isolation"`
	Limits         Limits    `json:"limits"`
}

// Isolation is what jobs are confined by, what was asked for, and what is
// missing and why.
type Isolation struct {
	isolation.Report
	Missing     []isolation.Layer `json:"missing"`
	Policy      isolation.Policy  `json:"policy"`
	Skipped     []string          `json:"skipped"`       // entries of the path lists that do not exist
	StateInHome bool              `json:"state_in_home"` // jobs of the server's HOME can write the record
}

// Limits are the bounds of requests and jobs, in bytes and seconds.
type Limits struct {
	MaxTimeout         float64 `json:"max_timeout"`
	MaxGrace           float64 `json:"max_grace_seconds"`
	DefaultOutputLimit int     `json:"default_output_limit"`
	MaxOutputLimit     int     `json:"max_output_limit"`
	MaxListLimit       int     `json:"max_list_limit"`
	MaxTerminal        int     `json:"max_terminal"`
	MaxOutputBytes     int64   `json:"max_output_bytes"` // of one job; 0: no cap
	DrainGrace         float64 `json:"drain_grace_seconds"`
	FinishedRetention  float64 `json:"finished_job_retention_seconds"`
	MaxRunningJobs     int     `json:"max_running_jobs"` // 0: no limit, as for those below
	MaxRecords         int     `json:"max_records"`      // of ended jobs
	MaxLogBytes        int64   `json:"max_log_bytes"`    // of all ended jobs
}

// Inform adds GET /v1/info, which answers with what info returns. Call it
// before the first request.
func (a *API) Inform(info func() Info) {
	a.handle("GET /v1/info", a.authorized(func(w http.ResponseWriter, _ *http.Request) error {
		write(w, http.StatusOK, info())
		return nil
	}))
}
