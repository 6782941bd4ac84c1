package applets

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"shellctl/pkg/client"
)

// randomToken returns a token that can not be guessed.
func randomToken() string { return rand.Text() }

// terminalSize returns the size of the terminal that this command runs in.
func terminalSize(c call) (client.Terminal, bool) {
	out, ok := c.stdout.(*os.File)
	if !ok || !term.IsTerminal(int(out.Fd())) {
		return client.Terminal{}, false
	}
	cols, rows, err := term.GetSize(int(out.Fd()))
	return client.Terminal{Cols: cols, Rows: rows}, err == nil && cols > 0 && rows > 0
}

// passThrough connects this command's terminal with a job's: keys and Ctrl-C go
// in as they are, and so do changes of the size.
type passThrough struct {
	stdin  *os.File // nil: no terminal here, nothing is passed
	before *term.State
	stop   context.CancelFunc
	wg     sync.WaitGroup
}

// enterTerminal begins to pass through if stdin and stdout are terminals.
func enterTerminal(c call, r *remote, id string) (*passThrough, error) {
	if _, ok := terminalSize(c); !ok || !term.IsTerminal(int(c.stdin.Fd())) {
		return &passThrough{}, nil
	}
	before, err := term.MakeRaw(int(c.stdin.Fd()))
	if err != nil {
		return nil, fmt.Errorf("set terminal to raw mode: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &passThrough{stdin: c.stdin, before: before, stop: cancel}
	// A descriptor of its own, with read deadlines, so that reading can be ended.
	keys, err := pollable(c.stdin)
	if err != nil {
		p.leave()
		return nil, err
	}
	p.wg.Go(func() { p.keys(ctx, keys, r, id) })
	p.wg.Go(func() { p.resizes(ctx, c, r, id) })
	return p, nil
}

// pollable opens the same terminal once more in non-blocking mode.
func pollable(f *os.File) (*os.File, error) {
	keys, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDONLY|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open terminal: %w", err)
	}
	return keys, nil
}

func (p *passThrough) keys(ctx context.Context, keys *os.File, r *remote, id string) {
	defer keys.Close() // only read from
	stop := context.AfterFunc(ctx, func() { _ = keys.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, 4096)
	for {
		n, err := keys.Read(buf)
		if err != nil {
			return // the end of the terminal, or of the job
		}
		// An answer is not needed, the output comes by the stream; its window of
		// one byte makes it come at once.
		w := client.WaitRequest{Timeout: inputTime, OutputLimit: 1, IdleFlush: atOnce}
		if _, err := r.Input(ctx, id, string(buf[:n]), w); err != nil && ctx.Err() == nil {
			fmt.Fprintf(r.err, "\r\nshellctl: %v\r\n", err)
		}
	}
}

// inputTime is how long, in seconds, keys may wait for the program to read them.
const inputTime = 1

func (p *passThrough) resizes(ctx context.Context, c call, r *remote, id string) {
	winch := make(chan os.Signal, 1)
	signal.Notify(winch, unix.SIGWINCH)
	defer signal.Stop(winch)
	for {
		select {
		case <-winch:
			if t, ok := terminalSize(c); ok {
				_, _ = r.Resize(ctx, id, t) // the job has just ended
			}
		case <-ctx.Done():
			return
		}
	}
}

// output returns the writer for the job's text: a terminal in raw mode wants a
// carriage return before each line feed.
func (p *passThrough) output(w io.Writer) io.Writer {
	if p.stdin == nil {
		return w
	}
	return rawWriter{w}
}

type rawWriter struct{ w io.Writer }

func (r rawWriter) Write(p []byte) (int, error) {
	if _, err := r.w.Write(bytes.ReplaceAll(p, []byte{'\n'}, []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// leave gives the terminal back as it was.
func (p *passThrough) leave() {
	if p.stdin == nil {
		return
	}
	p.stop()
	p.wg.Wait()
	_ = term.Restore(int(p.stdin.Fd()), p.before) // nothing more could be done
}
