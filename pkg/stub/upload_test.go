package stub_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"shellctl/pkg/stub"
	"shellctl/testdata/fakestub"
)

// closer counts how often a source is closed, and complains of reads after that.
type closer struct {
	io.Reader
	t      *testing.T
	closed atomic.Bool
}

func (c *closer) Read(p []byte) (int, error) {
	if c.closed.Load() {
		c.t.Error("read after close")
	}
	return c.Reader.Read(p)
}

func (c *closer) Close() error { c.closed.Store(true); return nil }

// post sends content to h, and checks that the source is closed at the end.
func post(t *testing.T, content io.Reader, size int64, h http.HandlerFunc) (id, reference string, err error) {
	t.Helper()
	server := serve(t, h)
	source := &closer{Reader: content, t: t}
	c := newClient(server.URL)
	id, reference, err = c.Post(t.Context(), server.URL+"/?sign=secret-signature", stub.Source{
		Name: "n", Type: "text/plain", Size: size, Content: source,
	})
	if !source.closed.Load() {
		t.Error("the source is open after the upload")
	}
	return id, reference, err
}

func accept(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.WriteHeader(http.StatusCreated)
	w.Write([]byte(`{"id":"1","reference":"r"}`))
}

func TestUploadTimeout(t *testing.T) {
	if stub.UploadTimeout != 180*time.Second {
		t.Errorf("upload timeout %v", stub.UploadTimeout)
	}
}

func TestPostLength(t *testing.T) {
	for _, size := range []int{0, 1, 5000, 1 << 20} {
		data := bytes.Repeat([]byte{'x'}, size)
		for _, announced := range []int64{int64(size), -1} {
			var got int64
			_, _, err := post(t, iotest.HalfReader(bytes.NewReader(data)), announced, func(w http.ResponseWriter, r *http.Request) {
				got = r.ContentLength
				f, _, err := r.FormFile("file")
				if err != nil {
					t.Error(err)
					return
				}
				if body, err := io.ReadAll(f); err != nil || len(body) != size {
					t.Errorf("%d bytes, %v", len(body), err)
				}
				accept(w, r)
			})
			if err != nil {
				t.Errorf("size %d announced %d: %v", size, announced, err)
			}
			if (got >= 0) != (announced >= 0) {
				t.Errorf("size %d announced %d: Content-Length %d", size, announced, got)
			}
		}
	}
}

// A file that grows is sent as it was; one that shrinks can not be.
func TestPostSourceChanges(t *testing.T) {
	id, _, err := post(t, strings.NewReader("more than announced"), 4, accept)
	if err != nil || id != "1" {
		t.Errorf("growing: %q, %v", id, err)
	}
	_, _, err = post(t, strings.NewReader("abc"), 1000, accept)
	wantError(t, err, "copy file content: file became shorter")
}

func TestPostSourceError(t *testing.T) {
	broken := io.MultiReader(strings.NewReader("begin"), iotest.ErrReader(errors.New("bad sector")))
	_, _, err := post(t, broken, -1, accept)
	wantError(t, err, "copy file content: bad sector")
}

// TestPostEarlyRefusal lets the server refuse and hang up while megabytes are
// on their way. The client's writes fail then, and still the reason must come
// through, every time.
func TestPostEarlyRefusal(t *testing.T) {
	for range 30 {
		_, _, err := post(t, io.LimitReader(zeros{}, 64<<20), 64<<20, func(w http.ResponseWriter, _ *http.Request) {
			hangUp(t, w, "HTTP/1.1 413 Too Large\r\nContent-Length: 8\r\n\r\ntoo much")
		})
		wantError(t, err, "upload failed with status 413: too much")
	}
}

// What there is of a broken refusal is better than nothing.
func TestPostCutRefusal(t *testing.T) {
	_, _, err := post(t, strings.NewReader("x"), 1, func(w http.ResponseWriter, _ *http.Request) {
		hangUp(t, w, "HTTP/1.1 415 No\r\nContent-Length: 100\r\n\r\nwrong type")
	})
	wantError(t, err, "upload failed with status 415: wrong type")
}

func TestPostEarlySuccess(t *testing.T) {
	_, _, err := post(t, io.LimitReader(zeros{}, 64<<20), 64<<20, func(w http.ResponseWriter, _ *http.Request) {
		hangUp(t, w, "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}")
	})
	wantError(t, err, "upload request completed before multipart body was fully written")
}

func TestPostConnectionLost(t *testing.T) {
	_, _, err := post(t, io.LimitReader(zeros{}, 64<<20), 64<<20, func(w http.ResponseWriter, _ *http.Request) {
		hangUp(t, w, "")
	})
	wantError(t, err, "upload request failed")
}

// hangUp writes an answer and closes the connection with unread bytes.
func hangUp(t *testing.T, w http.ResponseWriter, answer string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	io.WriteString(conn, answer)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestPostFIFO makes sure that an upload begins before its source has ended,
// and that a source that stalls does not hold it up forever.
func TestPostFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(path, os.O_RDWR, 0) // does not wait for the reader
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	fake := fakestub.Start() // it will complain of half a form
	defer fake.Close()
	c := stub.New(stub.Environment{BaseURL: fake.URL(), Token: fakestub.Token})
	c.SetTimeouts(200 * time.Millisecond)
	io.WriteString(w, "half of it")
	_, err = c.UploadFile(t.Context(), path)
	wantError(t, err, "upload file data: upload request timed out")

	// The other way around: the server has its say while the source stalls.
	c.SetTimeouts(time.Minute)
	fake.Fail("up", "413-early")
	io.WriteString(w, "half of it")
	_, err = c.UploadFile(t.Context(), path)
	wantError(t, err, "upload failed with status 413")
}

func TestPostInvalidURL(t *testing.T) {
	for _, target := range []string{"", "/relative?sign=secret-signature", "http://h:bad/?sign=secret-signature", "ftp://h/?sign=secret-signature", "http://a b/?secret-signature"} {
		source := &closer{Reader: strings.NewReader("x"), t: t}
		_, _, err := newClient("http://unused").Post(t.Context(), target, stub.Source{Name: "n", Type: "t/t", Size: 1, Content: source})
		wantError(t, err, "create upload request: invalid signed upload URL")
		if !source.closed.Load() {
			t.Error("the source is open")
		}
	}
}

func TestPostUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	source := &closer{Reader: strings.NewReader("x"), t: t}
	_, _, err = newClient("http://unused").Post(t.Context(), "http://"+l.Addr().String()+"/?sign=secret-signature",
		stub.Source{Name: "n", Type: "t/t", Size: 1, Content: source})
	wantError(t, err, "upload request failed", "connection refused")
}

func TestPostAnswers(t *testing.T) {
	for answer, want := range map[string]string{
		"":   "parse upload result",
		"[]": "parse upload result",
		`{"id":"` + strings.Repeat("x", 1<<20) + `"}`: "upload response exceeds 1048576 bytes",
	} {
		_, _, err := post(t, strings.NewReader("x"), 1, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, answer)
		})
		wantError(t, err, want)
	}
	for _, status := range []int{301, 302, 303, 307, 308, 400, 500} {
		_, _, err := post(t, strings.NewReader("x"), 1, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		})
		wantError(t, err, "upload failed with status")
	}
	id, reference, err := post(t, strings.NewReader("x"), 1, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, `{"id":7,"reference":null}`)
	})
	if err != nil || id != "" || reference != "" {
		t.Errorf("odd types: %q, %q, %v", id, reference, err)
	}
}
