package stub

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	maxRedirects = 10
	// maxHeld bounds how long a write error is held back. An answer that the
	// server sent before it closed has arrived by then.
	maxHeld = 2 * time.Second
)

// newTransports returns two transports that honour the proxy and certificate
// variables: a plain one, and one for uploads whose connections report a write
// error late.
func newTransports() (plain, late *http.Transport) {
	plain = &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         newDialer().DialContext,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: maxParallel,
		IdleConnTimeout:     90 * time.Second,
	}
	late = plain.Clone()
	late.DialContext = dialLate
	return plain, late
}

func newDialer() *net.Dialer {
	return &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
}

// noRedirect makes a redirect the answer.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// keepTokenHome follows redirects as net/http does, except that the token goes
// to the first request's origin only. net/http compares host names, so it would
// show the token to another port and to sub-domains. The Referer goes too: it
// would carry a signed URL.
func keepTokenHome(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return errors.New("stopped after 10 redirects")
	}
	req.Header.Del("Referer")
	if !sameOrigin(via[0].URL, req.URL) {
		req.Header.Del("Authorization")
	}
	return nil
}

// sameOrigin reports whether b is served by who serves a. Going from http to
// https on the standard ports of one host stays at home.
func sameOrigin(a, b *url.URL) bool {
	if a.Hostname() != b.Hostname() {
		return false
	}
	if a.Scheme == b.Scheme {
		return port(a) == port(b)
	}
	return a.Scheme == "http" && b.Scheme == "https" && port(a) == "80" && port(b) == "443"
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// lateConn holds a write error back until the connection is closed, for a while.
//
// A server may refuse an upload before it has read it, and close: then the
// client's writes fail while the refusal waits to be read. net/http gives up
// at the first failed write and would lose the server's reason. With the error
// held back its reader finds the answer, or the end of the connection.
type lateConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func dialLate(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := newDialer().DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &lateConn{Conn: conn, closed: make(chan struct{})}, nil
}

func (c *lateConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		select {
		case <-c.closed:
		case <-time.After(maxHeld):
		}
	}
	return n, err
}

func (c *lateConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
