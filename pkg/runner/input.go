package runner

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"shellctl/pkg/control"
	"shellctl/pkg/job"
)

// maxLine is the longest line, without its end, that a terminal in canonical
// mode delivers whole (N_TTY_BUF_SIZE is 4096; the rest is dropped silently).
const maxLine = 4095

// maxQueued bounds the inputs that wait for the one under way.
const maxQueued = 64

// input types into the terminal. Calls are carried out one after the other by
// one goroutine, so each stays whole and in order.
type input struct {
	master *os.File
	queue  chan control.Message
	reply  func(control.Message)
	wg     sync.WaitGroup

	line int // bytes typed since the last end of a line, while canonical
}

func newInput(master *os.File) *input {
	return &input{master: master, queue: make(chan control.Message, maxQueued)}
}

// serve begins to carry out inputs; reply is told the outcome of each.
func (in *input) serve(reply func(control.Message)) {
	in.reply = reply
	in.wg.Go(func() {
		for m := range in.queue {
			reply(in.typeText(m))
		}
	})
}

// add queues an input. It does not block.
func (in *input) add(m control.Message) {
	select {
	case in.queue <- m:
	default:
		in.reply(refused(m, job.CodeInputBlocked, "too many inputs wait for the program to read"))
	}
}

func refused(m control.Message, code job.Code, text string) control.Message {
	return control.Message{Kind: control.KindInputDone, ID: m.ID, Error: code, Text: text}
}

// typeText writes one input to the terminal. Each LF becomes CR, as the Enter
// key sends; everything else goes byte for byte.
func (in *input) typeText(m control.Message) control.Message {
	text := bytes.ReplaceAll(m.Data, []byte{'\n'}, []byte{'\r'})
	if !in.fits(text) {
		return refused(m, job.CodeInputLineTooLong, "a line of more than 4095 bytes can not be typed into a terminal that reads lines; nothing was sent")
	}
	if err := in.master.SetWriteDeadline(time.Now().Add(m.Limit)); err != nil {
		return refused(m, job.CodeJobNotRunning, "the terminal is closed")
	}
	n, err := in.master.Write(text)
	done := control.Message{Kind: control.KindInputDone, ID: m.ID, Written: n}
	switch {
	case err == nil:
	case errors.Is(err, os.ErrDeadlineExceeded):
		done.Error, done.Text = job.CodeInputBlocked, "the program does not read its input"
	default:
		done.Error, done.Text = job.CodeJobNotRunning, "the terminal is closed"
	}
	return done
}

// fits reports whether the kernel will take the text whole, and keeps count of
// the line that it leaves unfinished.
func (in *input) fits(text []byte) bool {
	canonical := false
	if err := onFile(in.master, func(fd int) error {
		t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil {
			canonical = t.Lflag&unix.ICANON != 0
		}
		return err
	}); err != nil || !canonical {
		in.line = 0
		return true
	}
	line := in.line
	for _, c := range text {
		switch c {
		case '\r', '\n', 0x03, 0x04, 0x15, 0x1a, 0x1c: // Enter, Ctrl-C, Ctrl-D, Ctrl-U, Ctrl-Z, Ctrl-\ empty the line
			line = 0
		default:
			if line++; line > maxLine {
				return false
			}
		}
	}
	in.line = line
	return true
}

// interrupt types Ctrl-C, past inputs that wait. It reports whether it went in.
func (in *input) interrupt() bool {
	// A write under way ends, and so do those that follow it: the job is to end.
	if err := in.master.SetWriteDeadline(time.Unix(1, 0)); err != nil {
		return false
	}
	ok := false
	err := onFile(in.master, func(fd int) error {
		n, err := unix.Write(fd, []byte{0x03})
		ok = n == 1
		return err
	})
	return err == nil && ok
}

// close ends the goroutine. Nothing may be added afterwards.
func (in *input) close() {
	_ = in.master.SetWriteDeadline(time.Unix(1, 0)) // fails on a closed terminal only
	close(in.queue)
	in.wg.Wait()
}
