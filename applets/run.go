package applets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"shellctl/pkg/client"
	"shellctl/pkg/config"
)

type runOptions struct {
	remoteOptions
	waitFlags
	cwd    string
	env    []string
	mode   string
	detach bool
	cols   int
	rows   int
	key    string
}

func (o *runOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.cwd, "cwd", "", "working directory (default: HOME of the server; of a private server, this directory)")
	f.StringArrayVar(&o.env, "env", nil, "variable NAME=VALUE for the job; may be repeated")
	f.StringVar(&o.mode, "mode", "", "pty or stdio (default pty)")
	f.BoolVar(&o.detach, "detach", false, "print the id of the job and leave it running")
	f.IntVar(&o.cols, "cols", 0, "columns of the terminal (default: of this one, or 200)")
	f.IntVar(&o.rows, "rows", 0, "rows of the terminal (default: of this one, or 50)")
	f.StringVar(&o.key, "idempotency-key", "", "a repeated run with this key finds the job of the first")
	o.waitFlags.add(f)
	o.remoteOptions.addFlags(f)
}

const runShort = `Run a script as a job, print its output as it comes and exit with its code.

The script is the text given, standard input for -, or what is in the file that
the text names. Without a server (--base-url, $SHELLCTL_BASE_URL) the job runs on a
private one that ends with it. With --json, make one call and print its answer.`

func runRun(c call) int {
	var o runOptions
	cmd := newCommand(c, "SCRIPT|-|FILE [FLAGS]", runShort)
	cmd.Args = cobra.ExactArgs(1)
	o.addFlags(cmd.Flags())
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		ctx, stop := interruptible(context.Background())
		defer stop()
		return o.run(ctx, c, args[0])
	}
	return execute(c, cmd)
}

func (o *runOptions) run(ctx context.Context, c call, arg string) (err error) {
	req, err := o.request(c, arg)
	if err != nil {
		return err
	}
	r := &remote{Client: o.client(), opt: o.remoteOptions, out: c.stdout, err: c.stderr}
	if o.server() == "" {
		if o.detach {
			return errors.New("--detach needs a server that stays: give --base-url")
		}
		p, err := startPrivate(c.stderr)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.close()) }()
		r.Client = p.client
		if req.Cwd == "" {
			if req.Cwd, err = os.Getwd(); err != nil {
				return fmt.Errorf("find working directory: %w", err)
			}
		}
	}
	defer r.Close()
	switch {
	case o.detach:
		return r.explain(r.detach(ctx, req))
	case o.json:
		return r.explain(r.runJSON(ctx, req))
	}
	return r.runHere(ctx, c, req)
}

// request builds the call from the options.
func (o *runOptions) request(c call, arg string) (client.RunRequest, error) {
	script, err := scriptArg(c.stdin, arg)
	if err != nil {
		return client.RunRequest{}, err
	}
	req := client.RunRequest{WaitRequest: o.WaitRequest, Script: script, Cwd: o.cwd, Mode: o.mode, Key: o.key}
	for _, e := range o.env {
		name, value, ok := strings.Cut(e, "=")
		if !ok {
			return req, fmt.Errorf("--env %q is not NAME=VALUE", e)
		}
		if req.Env == nil {
			req.Env = make(map[string]string)
		}
		req.Env[name] = value
	}
	if o.cols != 0 || o.rows != 0 {
		req.Terminal = &client.Terminal{Cols: o.cols, Rows: o.rows}
	} else if t, ok := terminalSize(c); ok {
		req.Terminal = &t
	}
	return req, nil
}

// atOnce is a timeout that asks for an answer without waiting; 0 is the default.
const atOnce = 0.001

func (r *remote) detach(ctx context.Context, req client.RunRequest) error {
	req.Timeout = atOnce
	res, err := r.Run(ctx, req)
	if err != nil {
		return err
	}
	return r.print(res, func() { fmt.Fprintln(r.out, res.JobID) })
}

func (r *remote) runJSON(ctx context.Context, req client.RunRequest) error {
	res, err := r.Run(ctx, req)
	if err != nil {
		return err
	}
	if err := r.print(res, nil); err != nil || !res.Done {
		return err
	}
	return exitOf(res)
}

// runHere runs the job in the foreground: its output comes out here, and in a
// terminal what is typed goes in.
func (r *remote) runHere(ctx context.Context, c call, req client.RunRequest) error {
	limit := req.Timeout
	req.Timeout, req.IdleFlush = atOnce, streamIdle
	res, err := r.Run(ctx, req)
	if err != nil {
		return err
	}
	if req.Mode != "stdio" {
		t, err := enterTerminal(c, r, res.JobID)
		if err != nil {
			return err
		}
		defer t.leave()
		r.out = t.output(r.out)
	}
	return r.stream(ctx, res, limit)
}

// streamIdle is how long output is quiet, in seconds, before it is printed.
const streamIdle = 0.01

// follow prints the output of a job from an offset on until the job ends.
func (r *remote) follow(ctx context.Context, id string, w client.WaitRequest) error {
	res := client.Result{JobID: id, Offset: w.Offset}
	return r.stream(ctx, res, w.Timeout)
}

// exitTimeout is the exit code when the time was over before the job, as of timeout(1).
const exitTimeout = 124

// stream prints the output after a first answer until the job ends, the limit in
// seconds is over (0: none) or ctx ends, which ends the job.
func (r *remote) stream(ctx context.Context, res client.Result, limit float64) error {
	begin := time.Now()
	call := ctx
	for {
		if _, err := io.WriteString(r.out, res.Output); err != nil {
			return fmt.Errorf("print output: %w", err)
		}
		if res.Done && !res.Truncated {
			return exitOf(res)
		}
		w := client.WaitRequest{Offset: res.Offset, Timeout: config.DefaultTimeout.Seconds(), OutputLimit: config.MaxOutputLimit, IdleFlush: streamIdle}
		if limit > 0 {
			w.Timeout = min(w.Timeout, limit-time.Since(begin).Seconds())
			if w.Timeout <= 0 {
				return &exitError{exitTimeout, fmt.Errorf("job %s is still running after %v s", res.JobID, limit)}
			}
		}
		next, err := r.Wait(call, res.JobID, w)
		if err != nil && ctx.Err() != nil && call == ctx {
			// Ctrl-C here is meant for the job; what it still prints is shown.
			call = context.WithoutCancel(ctx)
			if _, err := r.Terminate(call, res.JobID, nil); err != nil {
				return err
			}
			res.Output, res.Done = "", false
			continue
		}
		if err != nil {
			return err
		}
		res = next
	}
}

// exitOf ends this command as the job ended.
func exitOf(res client.Result) error {
	switch {
	case res.ExitCode == nil:
		return fmt.Errorf("job %s is %s and left no exit code", res.JobID, res.Status)
	case *res.ExitCode != 0:
		return &exitError{code: *res.ExitCode}
	}
	return nil
}

// privateServer is a server of this process for one job.
type privateServer struct {
	server *server
	client *client.Client
	dir    string
}

// startPrivate starts a server on a free loopback port, with its state in a
// directory for temporary files and a token that nobody else knows.
func startPrivate(stderr io.Writer) (_ *privateServer, err error) {
	dir, err := os.MkdirTemp("", "shellctl-")
	if err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	cfg := config.Server{
		Listen: "127.0.0.1:0", Token: randomToken(), StateDir: dir,
		GCInterval: config.DefaultGCInterval, GCRetention: config.DefaultGCRetention,
	}
	if cfg.Runner, err = config.RunnerFromEnv(); err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s, err := startServer(cfg, log)
	if err != nil {
		return nil, err
	}
	return &privateServer{server: s, client: client.New("http://"+s.listener.Addr().String(), cfg.Token), dir: dir}, nil
}

// close ends the server with whatever still runs on it.
func (p *privateServer) close() error {
	defer p.client.Close()
	ctx := context.Background()
	var err error
	if l, lerr := p.client.List(ctx, "running", config.MaxListLimit); lerr == nil {
		grace := 0.0
		for _, j := range l.Jobs {
			_, derr := p.client.Delete(ctx, j.JobID, true, &grace)
			err = errors.Join(err, derr)
		}
	}
	return errors.Join(err, p.server.close(nil), os.RemoveAll(p.dir))
}
