package stub

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net/textproto"
	"sync"
)

var errShorter = errors.New("file became shorter while it was sent")

// multipartBody streams one source as the only part of a form. It is the body
// of a request: the transport reads and closes it, from goroutines of its own.
type multipartBody struct {
	contentType string
	length      int64 // or -1 if unknown

	head, tail *bytes.Reader
	content    io.Reader
	source     io.Closer

	reading sync.Mutex // held by a Read, so that Close can wait for it

	mu     sync.Mutex // guards the fields below
	closed bool
	done   bool  // the last byte has been taken
	err    error // what broke the source, or nil
}

func newMultipartBody(s *source) (*multipartBody, error) {
	var frame bytes.Buffer
	form := multipart.NewWriter(&frame)
	_, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {multipart.FileContentDisposition("file", s.name)},
		"Content-Type":        {s.mime},
	})
	if err != nil {
		return nil, err
	}
	split := frame.Len()
	if err := form.Close(); err != nil {
		return nil, err
	}
	b := &multipartBody{
		contentType: form.FormDataContentType(),
		length:      -1,
		head:        bytes.NewReader(frame.Bytes()[:split]),
		tail:        bytes.NewReader(frame.Bytes()[split:]),
		content:     s.content,
		source:      s.content,
	}
	if s.size >= 0 {
		b.length = int64(frame.Len()) + s.size
		// A file that grows meanwhile is sent as it was at the start.
		b.content = &exactReader{r: s.content, left: s.size}
	}
	return b, nil
}

func (b *multipartBody) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if err := b.state(); err != nil {
		return 0, err
	}
	if b.head.Len() > 0 {
		return b.head.Read(p)
	}
	if b.content != nil {
		n, err := b.content.Read(p)
		if errors.Is(err, io.EOF) {
			b.content, err = nil, nil
		}
		if err != nil {
			return n, b.broken(err)
		}
		if n > 0 || b.content != nil {
			return n, nil
		}
	}
	n, err := b.tail.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done = b.tail.Len() == 0
	return n, err
}

// state returns why there is nothing to read, or nil.
func (b *multipartBody) state() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errBodyClosed
	}
	return b.err
}

// broken keeps an error of the source. After Close it is only a consequence.
func (b *multipartBody) broken(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errBodyClosed
	}
	b.err = err
	return err
}

// progress reports whether the transport has taken the last byte, and what
// broke the source, or nil. It does not wait for a Read.
func (b *multipartBody) progress() (complete bool, sourceErr error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.done, b.err
}

// Close closes the source, which ends a blocked Read, and waits for that Read.
func (b *multipartBody) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	err := b.source.Close()
	b.reading.Lock()
	defer b.reading.Unlock()
	return err
}

var errBodyClosed = errors.New("request body is closed")

// exactReader reads left bytes of r, no more and no less.
type exactReader struct {
	r    io.Reader
	left int64
}

func (e *exactReader) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.r.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	if errors.Is(err, io.EOF) && e.left > 0 {
		return n, errShorter
	}
	return n, err
}
