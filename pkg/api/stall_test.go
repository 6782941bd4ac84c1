package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"shellctl/pkg/job"
	"shellctl/pkg/manager"
)

const testStall = 500 * time.Millisecond

// slowJobs lets a wait take longer than a client may stall.
type slowJobs struct{ *jobs }

func (j slowJobs) Wait(ctx context.Context, id job.ID, w manager.WaitOptions) (manager.Result, error) {
	select {
	case <-time.After(3 * testStall):
	case <-ctx.Done():
		return manager.Result{}, ctx.Err()
	}
	return j.jobs.Wait(ctx, id, w)
}

// bounded is a server with impatience; closed tells of each connection that ended.
func bounded(t *testing.T) (s server, closed chan struct{}) {
	t.Helper()
	s = server{jobs: &jobs{dir: t.TempDir()}}
	a := New(slowJobs{s.jobs}, "", slog.New(slog.DiscardHandler))
	a.BoundClients(testStall)
	closed = make(chan struct{}, 100)
	ts := httptest.NewUnstartedServer(a)
	ts.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- struct{}{}
		}
	}
	ts.Start()
	t.Cleanup(ts.Close)
	s.url = ts.URL
	return s, closed
}

func dial(t *testing.T, s server) *net.TCPConn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func awaitClosed(t *testing.T, closed <-chan struct{}) {
	t.Helper()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Fatal("the connection stays open")
	}
}

// answer reads one answer.
func answer(t *testing.T, c net.Conn) (int, string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func head(route string, length int) string {
	return fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", route, length)
}

// TestStalledBody: a body that stops is answered and its connection closed,
// whatever was read of it; nothing is left of a script.
func TestStalledBody(t *testing.T) {
	s, closed := bounded(t)
	late := envelopeText("request_timeout", "no byte of the request body came for 500ms")
	for name, sent := range map[string]string{
		"run":     head("POST /v1/jobs/run", 1<<20) + `{"script":"` + strings.Repeat("x", 2*scriptInMemory),
		"wait":    head("POST /v1/jobs/"+id+"/wait", 100) + `{"offset":`,
		"nothing": head("POST /v1/jobs/"+id+"/wait", 100),
		"chunked": "POST /v1/jobs/" + id + "/wait HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"off",
	} {
		c := dial(t, s)
		send(t, c, sent)
		if code, body := answer(t, c); code != 408 || body != late {
			t.Errorf("%s: %d %s", name, code, body)
		}
		awaitClosed(t, closed)
	}
	wantEmpty(t, s.dir)
	for name, sent := range map[string]string{
		"of a wrong body": head("POST /v1/jobs/run", 100) + `{]`,
		"of no route":     head("POST /v1/nothing", 100) + `{`,
		"after a value":   head("POST /v1/jobs/"+id+"/terminal", 100) + `{}`,
	} {
		c := dial(t, s)
		send(t, c, sent)
		if code, body := answer(t, c); code == 408 || body == "" {
			t.Errorf("%s: %d %s", name, code, body)
		}
		awaitClosed(t, closed)
	}
}

// TestSlowBody: who goes on sending is not cut off.
func TestSlowBody(t *testing.T) {
	s, _ := bounded(t)
	c := dial(t, s)
	const text = `{"cols":80}`
	send(t, c, head("POST /v1/jobs/"+id+"/terminal", len(text)))
	for _, b := range []byte(text) {
		<-time.After(testStall / 6)
		send(t, c, string(b))
	}
	if code, body := answer(t, c); code != 200 {
		t.Errorf("%d %s", code, body)
	}
}

// TestWaitIsNoStall: a wait may take longer, also one whose body has an end that
// was not read, and its connection serves the next request.
func TestWaitIsNoStall(t *testing.T) {
	s, _ := bounded(t)
	s.result = manager.Result{ID: id}
	c := dial(t, s)
	for range 2 {
		for _, sent := range []string{
			head("POST /v1/jobs/"+id+"/wait", 2) + "{}",
			"POST /v1/jobs/" + id + "/wait HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
			head("GET /v1/jobs", 0),
		} {
			send(t, c, sent)
			if code, body := answer(t, c); code != 200 {
				t.Fatalf("%q: %d %s", sent, code, body)
			}
		}
	}
}

// TestUnreadAnswer: a client that does not take its answer is cut off, one that
// takes it slowly gets all of it.
func TestUnreadAnswer(t *testing.T) {
	s, closed := bounded(t)
	const size = 32 << 20
	s.raw = strings.Repeat("x", size)
	c := dial(t, s)
	send(t, c, head("GET /v1/jobs/"+id+"/log/raw", 0))
	awaitClosed(t, closed)
	c = dial(t, s)
	send(t, c, head("GET /v1/jobs/"+id+"/log/raw", 0))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for range 8 {
		<-time.After(testStall / 6)
		if _, err := io.CopyN(io.Discard, resp.Body, size/8); err != nil {
			t.Fatal(err)
		}
	}
}

// sendsFile counts what the kernel could have sent by itself.
type sendsFile struct {
	*httptest.ResponseRecorder
	direct int64
}

func (w *sendsFile) ReadFrom(src io.Reader) (int64, error) {
	if _, ok := src.(*io.LimitedReader).R.(*os.File); !ok {
		return io.Copy(w.ResponseRecorder, src)
	}
	n, err := io.Copy(w.ResponseRecorder, src)
	w.direct += n
	return n, err
}

// A file is handed on in pieces that the kernel can send.
func TestFileIsSentDirectly(t *testing.T) {
	j := &jobs{dir: t.TempDir(), raw: strings.Repeat("y", 3*filePiece+5)}
	a := New(j, "", slog.New(slog.DiscardHandler))
	a.BoundClients(time.Minute)
	w := &sendsFile{ResponseRecorder: httptest.NewRecorder()}
	a.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/v1/jobs/"+id+"/log/raw", nil))
	if w.Body.String() != j.raw || w.direct != int64(len(j.raw)) {
		t.Errorf("%d bytes, %d of them directly", w.Body.Len(), w.direct)
	}
}
