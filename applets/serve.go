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
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"shellctl/pkg/api"
	"shellctl/pkg/config"
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

// config checks the options and completes them from the environment.
func (o *serveOptions) config() (config.Server, error) {
	cfg := config.Server{Listen: o.listen, Token: o.token}
	if cfg.Token == "" {
		cfg.Token = o.authToken
	}
	if cfg.Token == "" {
		cfg.Token = os.Getenv(config.EnvAuthToken)
	}
	if err := os.Unsetenv(config.EnvAuthToken); err != nil {
		return cfg, fmt.Errorf("take token from the environment: %w", err)
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
	cfg.Runner, err = config.RunnerFromEnv()
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
	ctx, stop := interruptible()
	defer stop()
	cfg, err := o.config()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(c.stderr, nil))
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make server non-dumpable: %w", err)
	}
	if err := proctree.SetSubreaper(); err != nil {
		return err
	}
	s, err := startServer(cfg, log)
	if err != nil {
		return err
	}
	log.Info("listening", "address", s.listener.Addr().String(), "state_dir", cfg.StateDir, "version", version())
	var failure error
	select {
	case <-ctx.Done():
		log.Info("stopping; running jobs go on")
	case failure = <-s.failed:
	}
	return errors.Join(failure, s.close())
}

// server is a listening API with the jobs behind it.
type server struct {
	listener net.Listener
	http     *http.Server
	jobs     *manager.Manager
	failed   chan error // receives what ends the server by itself
	ended    chan struct{}
}

// startServer listens and answers at once; the record is opened and earlier jobs
// are found meanwhile, and the calls that need them wait for that.
func startServer(cfg config.Server, log *slog.Logger) (*server, error) {
	jobs, err := manager.New(cfg, log)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, errors.Join(err, jobs.Abandon())
	}
	s := &server{listener: l, jobs: jobs, failed: make(chan error, 2), ended: make(chan struct{})}
	s.http = &http.Server{
		Handler:           api.New(jobs, cfg.Token, log),
		ReadHeaderTimeout: time.Minute,
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
	return s, nil
}

// close stops accepting, lets running answers finish and lets go of the jobs.
func (s *server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), config.ShutdownGrace)
	defer cancel()
	s.jobs.Closing()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close() // who still reads or writes has had its time
	}
	<-s.ended
	return errors.Join(err, s.jobs.Close())
}
