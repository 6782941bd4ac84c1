package applets

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"shellctl/pkg/api"
	"shellctl/pkg/config"
	"shellctl/pkg/isolation"
	"shellctl/pkg/manager"
	"shellctl/pkg/proctree"
)

type serveOptions struct {
	listen      string
	token       string
	authToken   string
	stateDir    string
	runtimeDir  string
	gcInterval  float64
	gcRetention float64
}

func (o *serveOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.listen, "listen", config.DefaultListen, "address to serve HTTP on")
	f.StringVar(&o.token, "token", "", "bearer token clients must send (default $"+config.EnvAuthToken+"; empty: none)")
	f.StringVar(&o.authToken, "auth-token", "", "the same as --token")
	f.StringVar(&o.stateDir, "state-dir", "", "directory of the record and the jobs (default $"+config.EnvStateDir+", $XDG_DATA_HOME/shellctl or ~/.local/share/shellctl)")
	f.StringVar(&o.runtimeDir, "runtime-dir", "", "directory of the control sockets (default: in the directory of each job)")
	f.Float64Var(&o.gcInterval, "gc-interval-seconds", config.DefaultGCInterval.Seconds(), "how often ended jobs are cleared away at most")
	f.Float64Var(&o.gcRetention, "gc-finished-job-retention-seconds", config.DefaultGCRetention.Seconds(), "how long an ended job is kept")
}

// config checks the options and completes them; token is that of the environment.
func (o *serveOptions) config(token string) (config.Server, error) {
	cfg := config.Server{Listen: o.listen, Token: o.token}
	if cfg.Token == "" {
		cfg.Token = o.authToken
	}
	if cfg.Token == "" {
		cfg.Token = token
	}
	var err error
	for _, s := range []struct {
		flag    string
		seconds float64
		to      *time.Duration
	}{
		{"--gc-interval-seconds", o.gcInterval, &cfg.GCInterval},
		{"--gc-finished-job-retention-seconds", o.gcRetention, &cfg.GCRetention},
	} {
		if s.seconds < 0 || math.IsNaN(s.seconds) {
			return cfg, fmt.Errorf("%s must not be negative", s.flag)
		}
		*s.to = config.Seconds(s.seconds, maxRetention)
	}
	if cfg.StateDir = o.stateDir; cfg.StateDir == "" {
		if cfg.StateDir, err = config.StateDir(); err != nil {
			return cfg, err
		}
	}
	if cfg.StateDir, err = filepath.Abs(cfg.StateDir); err != nil {
		return cfg, fmt.Errorf("find state directory: %w", err)
	}
	if o.runtimeDir != "" {
		if cfg.RuntimeDir, err = filepath.Abs(o.runtimeDir); err != nil {
			return cfg, fmt.Errorf("find runtime directory: %w", err)
		}
	}
	if cfg.Limits, err = config.LimitsFromEnv(); err != nil {
		return cfg, err
	}
	if cfg.Runner, err = config.RunnerFromEnv(); err != nil {
		return cfg, err
	}
	cfg.Snapshot, err = config.SnapshotFromEnv()
	return cfg, err
}

const maxRetention = 100 * 365 * 24 * time.Hour

func runServe(c call) int {
	c.args = doubleDash(c.args)
	var o serveOptions
	cmd := newCommand(c, "[FLAGS]", "Serve the HTTP API that runs shell jobs.")
	cmd.Args = cobra.NoArgs
	o.addFlags(cmd.Flags())
	cmd.RunE = func(*cobra.Command, []string) error { return serve(o, c) }
	return execute(c, cmd)
}

// serve runs a server until SIGINT or SIGTERM.
func serve(o serveOptions, c call) error {
	ctx, stop := interruptible(context.Background())
	defer stop()
	log := slog.New(slog.NewTextHandler(c.stderr, nil))
	token, err := isolation.TakeSecret(config.EnvAuthToken)
	if err != nil {
		log.Warn("the token stays visible in the environment of this process", "error", err)
	}
	cfg, err := o.config(token)
	if err != nil {
		return err
	}
	hideToken(&cfg, o, log)
	s, err := startServer(cfg, log)
	if err != nil {
		return err
	}
	log.Info("listening", "address", s.listener.Addr().String(), "state_dir", cfg.StateDir, "version", version())
	select {
	case <-ctx.Done():
	case failure := <-s.failed:
		return errors.Join(failure, s.close(nil))
	}
	if isLast() {
		return s.close(func() { s.endJobs(log) })
	}
	log.Info("stopping; running jobs go on")
	return s.close(nil)
}

// server is a listening API with the jobs behind it.
type server struct {
	listener net.Listener
	http     *http.Server
	api      *api.API
	jobs     *manager.Manager
	failed   chan error // receives what ends the server by itself
	ended    chan struct{}
}

// startServer listens and answers at once; the record is opened and earlier jobs
// are found meanwhile, and the calls that need them wait for that.
func startServer(cfg config.Server, log *slog.Logger) (*server, error) {
	policy, notes, err := isolation.FromEnviron(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(isolation.CloseOnExec(), isolation.HideProcess()); err != nil {
		return nil, err
	}
	if err := proctree.SetSubreaper(); err != nil {
		return nil, err
	}
	jobs, err := manager.New(cfg, policy, log)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, errors.Join(err, jobs.Abandon())
	}
	s := &server{listener: l, jobs: jobs, failed: make(chan error, 2), ended: make(chan struct{})}
	report := sync.OnceValue(policy.Probe) // after the server answers
	handler := api.New(jobs, cfg.Token, log)
	s.api = handler
	handler.Snapshot(cfg.Snapshot, cfg.StateDir)
	handler.BoundClients(cfg.Limits.StallTimeout)
	handler.Inform(informer(cfg, policy, notes, report))
	s.http = &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: time.Minute,
		IdleTimeout:       config.IdleTimeout,
		MaxHeaderBytes:    config.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // connections that clients break
	}
	go func() {
		defer close(s.ended)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("serve HTTP: %w", err)
		}
	}()
	go func() {
		if err := jobs.Open(); err != nil {
			s.failed <- err
		}
	}()
	tellIsolation(policy, notes, report(), log)
	warnOpen(cfg, l.Addr(), log)
	return s, nil
}

// close stops accepting, lets running answers finish and lets go of the jobs.
// What is to be done with them first, if anything, is done meanwhile.
func (s *server) close(first func()) error {
	ctx, cancel := context.WithTimeout(context.Background(), config.ShutdownGrace)
	defer cancel()
	s.jobs.Closing()
	var wg sync.WaitGroup
	if first != nil {
		wg.Go(first)
	}
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close() // who still reads or writes has had its time
	}
	<-s.ended
	wg.Wait()
	s.api.Settle(config.ShutdownGrace)
	return errors.Join(err, s.jobs.Close())
}
