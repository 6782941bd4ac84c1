// Package joblog is the append-only output of a job: a plain text file that the
// runner writes, clients page by byte offset and anyone reads with shell tools.
package joblog

import (
	"fmt"
	"os"
	"sync/atomic"
	"unicode/utf8"

	"shellctl/pkg/config"
)

// Writer appends the output of a job to its file.
//
// A Writer never fails towards its caller, because a job must not stall or die
// for a full disk. What could not be written is counted and named in the file
// as soon as writing works again; Close reports the first error. Above the cap
// the last bytes are kept aside and follow at Close, after one line that says
// how many bytes were left out.
//
// One goroutine writes; Size may be called from any.
type Writer struct {
	f    *os.File
	size atomic.Int64 // bytes in the file

	limit   int64  // cap of the head; 0: none
	head    int64  // bytes of the stream that count towards the cap
	tail    []byte // ring of the last bytes beyond the cap, or nil
	tailPos int    // where the next byte goes once the ring is full
	beyond  int64  // bytes of the stream beyond the cap

	lost     int64 // bytes of the stream that the disk refused since the last success
	firstErr error
}

// Create makes the file of an output with mode 0600. A limit of 0 means no cap.
func Create(path string, limit int64) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create output: %w", err)
	}
	return &Writer{f: f, limit: limit}, nil
}

// Size is the number of bytes in the file.
func (w *Writer) Size() int64 { return w.size.Load() }

// Write appends p. It always takes all of it.
func (w *Writer) Write(p []byte) (int, error) {
	n := len(p)
	if w.limit > 0 {
		room := max(0, w.limit-w.head)
		if w.beyond > 0 {
			room = 0
		}
		if int64(len(p)) > room {
			cut := w.cut(p, int(room))
			w.keep(p[cut:])
			p = p[:cut]
		}
	}
	w.head += int64(len(p))
	w.put(p)
	return n, nil
}

// put writes to the disk, naming first what an earlier failure lost.
func (w *Writer) put(p []byte) {
	if len(p) == 0 {
		return
	}
	if w.lost > 0 {
		note := fmt.Appendf(nil, "\n[shellctl: %d bytes of output could not be written]\n", w.lost)
		if !w.write(note) {
			w.lost += int64(len(p))
			return
		}
		w.lost = 0
	}
	before := w.size.Load()
	if !w.write(p) {
		w.lost += int64(len(p)) - (w.size.Load() - before)
	}
}

func (w *Writer) write(p []byte) bool {
	n, err := w.f.Write(p)
	w.size.Add(int64(n))
	if err != nil && w.firstErr == nil {
		w.firstErr = fmt.Errorf("write output: %w", err)
	}
	return err == nil
}

// keep remembers the last bytes beyond the cap.
func (w *Writer) keep(p []byte) {
	w.beyond += int64(len(p))
	if len(p) > config.OutputTailBytes {
		p = p[len(p)-config.OutputTailBytes:]
	}
	if room := config.OutputTailBytes - len(w.tail); room > 0 {
		k := min(room, len(p))
		w.tail = append(w.tail, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(w.tail[w.tailPos:], p)
		w.tailPos = (w.tailPos + k) % len(w.tail)
		p = p[k:]
	}
}

// Close appends what was kept beyond the cap and closes the file. It returns
// the first error of any write.
func (w *Writer) Close() error {
	if w.beyond > 0 {
		tail := append(w.tail[w.tailPos:len(w.tail):len(w.tail)], w.tail[:w.tailPos]...)
		if left := w.beyond - int64(len(tail)); left > 0 {
			skip := 0 // the first character of the tail may have lost its beginning
			for skip < utf8.UTFMax-1 && skip < len(tail) && !utf8.RuneStart(tail[skip]) {
				skip++
			}
			tail = tail[skip:]
			w.put(fmt.Appendf(nil, "\n[shellctl: %d bytes of output left out]\n", left+int64(skip)))
		}
		w.put(tail)
	}
	if w.lost > 0 {
		w.put([]byte{'\n'}) // one more try to name the loss
	}
	if err := w.f.Close(); err != nil && w.firstErr == nil {
		w.firstErr = fmt.Errorf("close output: %w", err)
	}
	return w.firstErr
}

// cut returns how much of p belongs to the head, which has room for n bytes. It
// splits no character: one that begins in p goes beyond the cap as a whole, one
// that the head ends with is completed, a few bytes above the cap.
func (w *Writer) cut(p []byte, n int) int {
	for i := n; i >= 0 && n-i < utf8.UTFMax; i-- {
		if utf8.RuneStart(p[i]) {
			return i
		}
	}
	for w.beyond == 0 && n < len(p) && w.head+int64(n) < w.limit+utf8.UTFMax-1 && !utf8.RuneStart(p[n]) {
		n++
	}
	return n
}
