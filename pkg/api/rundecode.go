package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"shellctl/pkg/config"
	"shellctl/pkg/job"
	"shellctl/pkg/manager"
)

// scriptInMemory is the largest script that is held in memory; a larger one is
// written to its file while it arrives.
const scriptInMemory = 256 << 10

// decodeRun reads the body of run. Its script may be of any size: clients embed
// whole files in it. So the object is taken apart here: the text of "script" is
// unquoted straight into a file, all else, which is small, is collected and left
// to encoding/json. Keys match without regard to case, the last of equal keys
// wins, null is the same as absent, what follows the object is ignored.
func decodeRun(body io.Reader, spill func() (*os.File, error)) (*runBody, manager.Script, error) {
	d := &runDecoder{in: bufio.NewReaderSize(body, 32<<10), sink: scriptSink{spill: spill}}
	b, err := d.decode()
	if err == nil && !d.seen {
		err = job.Errorf(job.CodeInvalidRequest, "script is required")
	}
	if err == nil {
		err = d.sink.flush()
	}
	if err != nil {
		d.sink.script().Discard()
		return nil, manager.Script{}, err
	}
	return b, d.sink.script(), nil
}

type runDecoder struct {
	in   *bufio.Reader
	rest bytes.Buffer // the object without its scripts
	sink scriptSink
	seen bool // a script that is not empty
}

// errSyntax stands for whatever makes a body no JSON object of the right types.
var errSyntax = errors.New("syntax")

func (d *runDecoder) decode() (*runBody, error) {
	err := d.object()
	var b runBody
	if err == nil {
		err = json.Unmarshal(d.rest.Bytes(), &b)
	}
	if err == nil {
		return &b, nil
	}
	if failure := new(sinkError); errors.As(err, &failure) {
		return nil, failure.err
	}
	if je := new(job.Error); errors.As(err, &je) {
		return nil, err
	}
	return nil, invalidJSON()
}

// object reads the whole object and leaves all but the scripts in rest.
func (d *runDecoder) object() error {
	c, err := d.next()
	if err != nil {
		return err
	}
	if c != '{' {
		return d.value(c) // null is an empty object; anything else fails to unmarshal
	}
	d.rest.WriteByte('{')
	for first := true; ; first = false {
		c, err := d.next()
		if err != nil {
			return err
		}
		if c == '}' && first {
			break
		}
		if !first {
			if c == '}' {
				break
			}
			if c != ',' {
				return errSyntax
			}
			if c, err = d.next(); err != nil {
				return err
			}
		}
		if err := d.member(c); err != nil {
			return err
		}
	}
	d.rest.WriteByte('}')
	return nil
}

// member reads a key, which begins with c, and its value.
func (d *runDecoder) member(c byte) error {
	if c != '"' {
		return errSyntax
	}
	mark := d.rest.Len()
	if mark > 1 {
		d.rest.WriteByte(',')
	}
	at := d.rest.Len()
	if err := d.quoted(); err != nil {
		return err
	}
	var key string
	if err := json.Unmarshal(d.rest.Bytes()[at:], &key); err != nil {
		return err
	}
	colon, err := d.next()
	if err != nil {
		return err
	}
	if colon != ':' {
		return errSyntax
	}
	if c, err = d.next(); err != nil {
		return err
	}
	if strings.EqualFold(key, "script") {
		d.rest.Truncate(mark)
		return d.script(c)
	}
	d.rest.WriteByte(':')
	return d.value(c)
}

// script reads the value of a script, which begins with c.
func (d *runDecoder) script(c byte) error {
	if c != '"' {
		at := d.rest.Len()
		err := d.value(c)
		if err == nil && string(d.rest.Bytes()[at:]) != "null" {
			err = errSyntax
		}
		d.rest.Truncate(at)
		return err
	}
	d.sink.reset()
	if err := d.unquote(); err != nil {
		return err
	}
	d.seen = d.sink.size > 0
	return nil
}

// next returns the next byte that is no white space.
func (d *runDecoder) next() (byte, error) {
	for {
		c, err := d.in.ReadByte()
		if err != nil {
			return 0, err
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c, nil
		}
	}
}

// keep adds a byte to rest.
func (d *runDecoder) keep(c byte) error {
	if d.rest.Len() >= config.MaxFieldBytes {
		return job.Errorf(job.CodeInvalidRequest, "all fields but script must not be larger than %d bytes", config.MaxFieldBytes)
	}
	return d.rest.WriteByte(c)
}

// value copies a value that begins with c to rest. Its brackets and strings tell
// where it ends; whether it is well formed is encoding/json's to find out.
func (d *runDecoder) value(c byte) error {
	for depth := 0; ; {
		switch c {
		case '"':
			if err := d.quoted(); err != nil {
				return err
			}
		case '{', '[':
			depth++
			fallthrough
		default:
			if err := d.keep(c); err != nil {
				return err
			}
			if c == '}' || c == ']' {
				depth--
			}
		}
		if depth < 0 {
			return errSyntax
		}
		if depth == 0 {
			p, err := d.in.Peek(1)
			if err == io.EOF {
				return nil // a lone value; an object that is cut fails at its next byte
			}
			if err != nil {
				return err
			}
			if strings.IndexByte(",}] \t\r\n", p[0]) >= 0 {
				return nil
			}
		}
		var err error
		if c, err = d.in.ReadByte(); err != nil {
			return err
		}
	}
}

// quoted copies a string, whose first quote is read, to rest as it is.
func (d *runDecoder) quoted() error {
	if err := d.keep('"'); err != nil {
		return err
	}
	for {
		c, err := d.in.ReadByte()
		if err != nil {
			return err
		}
		if err := d.keep(c); err != nil {
			return err
		}
		switch c {
		case '"':
			return nil
		case '\\':
			if c, err = d.in.ReadByte(); err != nil {
				return err
			}
			if err := d.keep(c); err != nil {
				return err
			}
		}
	}
}

// unquote writes the text of a string, whose first quote is read, to the sink.
func (d *runDecoder) unquote() error {
	for {
		if _, err := d.in.Peek(1); err != nil {
			return err
		}
		b, _ := d.in.Peek(d.in.Buffered()) // never fails: that much is there
		n := plain(b)
		if err := d.sink.text(b[:n]); err != nil {
			return err
		}
		_, _ = d.in.Discard(n) // as for Peek
		if n == len(b) {
			continue
		}
		c, _ := d.in.ReadByte() // as for Peek
		switch c {
		case '"':
			return d.sink.rune(-1)
		case '\\':
			if err := d.escape(); err != nil {
				return err
			}
		default:
			return errSyntax // a control character
		}
	}
}

// plain returns how many bytes stand for themselves.
func plain(b []byte) int {
	for i, c := range b {
		if c == '"' || c == '\\' || c < ' ' {
			return i
		}
	}
	return len(b)
}

// escape writes what an escape stands for; its backslash is read.
func (d *runDecoder) escape() error {
	c, err := d.in.ReadByte()
	if err != nil {
		return err
	}
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		return d.sink.rune(rune("\"\\/\b\f\n\r\t"[i]))
	}
	if c != 'u' {
		return errSyntax
	}
	r, err := d.hex()
	if err != nil {
		return err
	}
	if !utf16.IsSurrogate(r) {
		return d.sink.rune(r)
	}
	// A half of a pair alone is no character; what follows it stands by itself.
	if p, err := d.in.Peek(6); err == nil && p[0] == '\\' && p[1] == 'u' {
		if low, err := strconv.ParseUint(string(p[2:6]), 16, 16); err == nil {
			if pair := utf16.DecodeRune(r, rune(low)); pair != utf8.RuneError {
				_, _ = d.in.Discard(6) // just peeked
				return d.sink.rune(pair)
			}
		}
	}
	return d.sink.rune(utf8.RuneError)
}

func (d *runDecoder) hex() (rune, error) {
	var h [4]byte
	if _, err := io.ReadFull(d.in, h[:]); err != nil {
		return 0, err
	}
	for _, c := range h {
		if !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)) {
			return 0, errSyntax
		}
	}
	n, err := strconv.ParseUint(string(h[:]), 16, 16)
	return rune(n), err
}

// scriptSink takes the text of a script: into memory, and what is larger into a file.
type scriptSink struct {
	spill func() (*os.File, error)
	mem   []byte
	file  *os.File // nil: all is in mem
	out   *bufio.Writer
	size  int64
	part  []byte // the beginning of a character that is not complete yet
	char  []byte // reused by rune
}

// sinkError is a failure of ours, not of the body.
type sinkError struct{ err error }

func (e *sinkError) Error() string { return e.err.Error() }

// text adds bytes, which may be cut anywhere and need not be UTF-8: each byte
// that is none becomes U+FFFD, as encoding/json has it.
func (s *scriptSink) text(p []byte) error {
	if len(s.part) > 0 {
		s.part = append(s.part, p...)
		p, s.part = s.part, nil
	}
	for len(p) > 0 {
		n := validPrefix(p)
		if err := s.write(p[:n]); err != nil {
			return err
		}
		if p = p[n:]; len(p) == 0 {
			return nil
		}
		if !utf8.FullRune(p) {
			s.part = bytes.Clone(p)
			return nil
		}
		if err := s.write([]byte("\uFFFD")); err != nil {
			return err
		}
		p = p[1:]
	}
	return nil
}

// validPrefix returns how many bytes of p are valid UTF-8 in one piece.
func validPrefix(p []byte) int {
	if utf8.Valid(p) {
		return len(p)
	}
	n := 0
	for n < len(p) {
		r, size := utf8.DecodeRune(p[n:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}

// rune adds a character after what text was given; -1 adds none.
func (s *scriptSink) rune(r rune) error {
	for range s.part { // its rest never came
		if err := s.write([]byte("\uFFFD")); err != nil {
			return err
		}
	}
	s.part = nil
	if r < 0 {
		return nil
	}
	s.char = utf8.AppendRune(s.char[:0], r)
	return s.write(s.char)
}

func (s *scriptSink) write(p []byte) error {
	s.size += int64(len(p))
	if s.file == nil && len(s.mem)+len(p) <= scriptInMemory {
		s.mem = append(s.mem, p...)
		return nil
	}
	if s.file == nil {
		f, err := s.spill()
		if err != nil {
			return &sinkError{err}
		}
		s.file, s.out = f, bufio.NewWriterSize(f, 32<<10)
		p = append(s.mem, p...)
		s.mem = nil
	}
	if _, err := s.out.Write(p); err != nil {
		return &sinkError{fmt.Errorf("write script: %w", err)}
	}
	return nil
}

// reset forgets the script so far: the last of equal keys wins.
func (s *scriptSink) reset() {
	s.script().Discard()
	*s = scriptSink{spill: s.spill}
}

func (s *scriptSink) flush() error {
	if s.file == nil {
		return nil
	}
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("write script: %w", err)
	}
	return nil
}

func (s *scriptSink) script() manager.Script { return manager.Script{Text: s.mem, File: s.file} }
