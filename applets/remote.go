package applets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"shellctl/pkg/client"
	"shellctl/pkg/config"
)

// remoteOptions are what every job command takes.
type remoteOptions struct {
	baseURL string
	token   string
	json    bool
}

func (o *remoteOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.baseURL, "base-url", "", "server to call (default $"+config.EnvBaseURL+", else "+config.DefaultBaseURL+")")
	f.StringVar(&o.token, "auth-token", "", "bearer token (default $"+config.EnvAuthToken+")")
	f.BoolVar(&o.json, "json", false, "print the answer of the server as it is, in one line")
}

// client returns a client of the server that the options or the environment name.
func (o *remoteOptions) client() *client.Client {
	base := o.server()
	if base == "" {
		base = config.DefaultBaseURL
	}
	token := o.token
	if token == "" {
		token = os.Getenv(config.EnvAuthToken)
	}
	return client.New(base, token)
}

// server is the URL of the server if one is named.
func (o *remoteOptions) server() string {
	if o.baseURL != "" {
		return o.baseURL
	}
	return os.Getenv(config.EnvBaseURL)
}

// remote is one job command under way.
type remote struct {
	*client.Client
	opt remoteOptions
	out io.Writer
	err io.Writer
}

// jobCommand makes the command of an applet that calls a server. work gets the
// arguments; what it returns is printed.
func jobCommand(c call, args, short string, o *remoteOptions, check cobra.PositionalArgs, flags func(*pflag.FlagSet), work func(context.Context, *remote, []string) error) int {
	cmd := newCommand(c, args, short)
	cmd.Args = check
	if flags != nil {
		flags(cmd.Flags())
	}
	o.addFlags(cmd.Flags())
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		ctx, stop := interruptible(context.Background())
		defer stop()
		r := &remote{Client: o.client(), opt: *o, out: c.stdout, err: c.stderr}
		defer r.Close()
		return r.explain(work(ctx, r, args))
	}
	return execute(c, cmd)
}

// print writes an answer: as JSON, or by text.
func (r *remote) print(answer any, text func()) error {
	if !r.opt.json {
		text()
		return nil
	}
	b, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	_, err = fmt.Fprintf(r.out, "%s\n", b)
	return err
}

// explain turns an error of the server into what this command prints for it.
func (r *remote) explain(err error) error {
	var e *client.Error
	if !r.opt.json || !errors.As(err, &e) {
		return err
	}
	var body struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	body.Error.Code, body.Error.Message = e.Code, e.Message
	b, merr := json.Marshal(body)
	if merr != nil {
		return errors.Join(err, merr)
	}
	fmt.Fprintf(r.out, "%s\n", b)
	return &exitError{code: exitFailed}
}
