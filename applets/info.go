package applets

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"shellctl/pkg/api"
	"shellctl/pkg/config"
	"shellctl/pkg/isolation"
)

// informer returns what answers GET /v1/info. The machine is probed once: jobs
// are confined by what holds when they start, which a reboot alone changes.
func informer(cfg config.Server, policy isolation.Policy, notes []string, probe func() isolation.Report) func() api.Info {
	started := time.Now().UTC().Truncate(time.Second)
	return sync.OnceValue(func() api.Info {
		report := probe()
		return api.Info{
			Version: version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Kernel: kernelRelease(),
			StartedAt: started, StateDir: cfg.StateDir, Authentication: cfg.Token != "",
			Isolation: api.Isolation{
				Report: report, Missing: append([]isolation.Layer{}, report.Missing()...),
				Policy: policy, Skipped: append([]string{}, notes...),
				StateInHome: inHome(cfg.StateDir),
			},
			Limits: limitsOf(cfg),
		}
	})
}

func limitsOf(cfg config.Server) api.Limits {
	return api.Limits{
		MaxTimeout: config.MaxTimeout.Seconds(), MaxGrace: config.MaxGrace.Seconds(),
		DefaultOutputLimit: config.DefaultOutputLimit, MaxOutputLimit: config.MaxOutputLimit,
		MaxListLimit: config.MaxListLimit, MaxTerminal: config.MaxTerminal,
		MaxOutputBytes: cfg.Runner.MaxOutputBytes, DrainGrace: cfg.Runner.DrainGrace.Seconds(),
		FinishedRetention: cfg.GCRetention.Seconds(),
		MaxRunningJobs:    cfg.Limits.MaxRunningJobs, MaxRecords: cfg.Limits.MaxRecords, MaxLogBytes: cfg.Limits.MaxLogBytes,
	}
}

func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// inHome reports whether a path lies in the HOME of this process, also by way
// of links. A part that does not exist yet is taken as it is named.
func inHome(path string) bool {
	home := os.Getenv("HOME")
	if home == "" {
		return false
	}
	rel, err := filepath.Rel(resolved(home), resolved(path))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

func resolved(path string) string {
	rest := ""
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return filepath.Clean(path)
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// hideToken takes the token out of the command line that everybody can read.
func hideToken(cfg *config.Server, o serveOptions, log *slog.Logger) {
	if o.token == "" && o.authToken == "" {
		return
	}
	cfg.Token = strings.Clone(cfg.Token)
	if err := isolation.HideArguments(strings.Clone(o.token), strings.Clone(o.authToken)); err != nil {
		log.Warn("the token stays visible in the command line of this process", "error", err)
	}
}

// tellIsolation says once what jobs are confined by, as a warning if it is not
// what the policy asks for.
func tellIsolation(policy isolation.Policy, notes []string, report isolation.Report, log *slog.Logger) {
	if len(notes) > 0 {
		log.Warn("isolation: " + strings.Join(notes, "; "))
	}
	level := slog.LevelInfo
	if report.Refusing || policy.Paths && report.ABI == 0 {
		level = slog.LevelWarn
	}
	text := "isolation: " + report.String()
	if l := report.Layer("paths"); l.State == isolation.Missing {
		text += "; " + l.Detail
	}
	log.Log(context.Background(), level, text)
}

// warnOpen says so if everybody who reaches the address may run jobs.
func warnOpen(cfg config.Server, address net.Addr, log *slog.Logger) {
	tcp, ok := address.(*net.TCPAddr)
	if cfg.Token != "" || ok && tcp.IP.IsLoopback() {
		return
	}
	log.Warn("no token is configured and the address is not a loopback one: whoever reaches it can run jobs; set "+
		config.EnvAuthToken, "address", cmp.Or(address.String(), cfg.Listen))
}
