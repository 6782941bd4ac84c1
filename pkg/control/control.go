// Package control is the private protocol between a server and the runner of a
// job: the messages, their framing, and how either end gets and proves the
// connection. Both ends stand here side by side.
//
// A runner is born with one end of a socket pair as descriptor 3; the server
// that started it has the other. The runner also listens on a socket in the file
// system, where a later server finds it. There is one connection at a time; a
// new one replaces the old.
//
// Order of messages, S the server, R the runner:
//
//	S Hello            version
//	S Start            the job; only on the connection it was born with
//	R Hello            version, and what the runner knows already
//	R Started | Exited the script runs, or never will
//	R Size*            the output grew
//	R Draining         the script has exited, its last output is being read
//	S Input, Terminate, Resize; R answers each Input by InputDone
//	R Exited           the job is over, its output complete; S answers by Recorded
//	R Idle             nothing of the job is left, S may send another Start; a runner
//	                   of which something is left closes the connection instead
//
// Each message names its job, so that one which comes late is never taken for
// the next job's.
//
// Versions: a peer ignores kinds and fields it does not know. A change that an
// older peer could not live with raises Version; the newer end then speaks the
// older's.
package control

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"shellctl/pkg/config"
	"shellctl/pkg/isolation"
	"shellctl/pkg/job"
)

// Version is the newest version of the protocol that this program speaks.
const Version = 1

// maxFrame bounds one message. The largest is Start, with the environment.
const maxFrame = 64 << 20

// Kind says what a message is.
type Kind uint8

const (
	KindHello Kind = iota + 1
	KindStart
	KindStarted
	KindSize
	KindInput
	KindInputDone
	KindTerminate
	KindResize
	KindExited
	KindRecorded
	KindDraining
	KindIdle
)

// Message is any message; only the fields of its kind are set.
type Message struct {
	Kind Kind   `json:"-"`
	Job  job.ID `json:"job,omitempty"` // all but a Hello to a runner

	Version int   `json:"version,omitempty"` // Hello
	Running bool  `json:"running,omitempty"` // Hello of a runner: the script was started
	Drain   bool  `json:"drain,omitempty"`   // Hello of a runner: as Draining
	Size    int64 `json:"size,omitempty"`    // Hello, Size: bytes in the output file

	Start *Start `json:"start,omitempty"` // Start

	ID    uint64        `json:"id,omitempty"`    // Input, InputDone: which
	Data  []byte        `json:"data,omitempty"`  // Input
	Limit time.Duration `json:"limit,omitempty"` // Input: when to give up; Terminate: the grace

	Written int       `json:"written,omitempty"` // InputDone: bytes that went in
	Error   job.Code  `json:"error,omitempty"`   // InputDone: why not all
	Text    string    `json:"text,omitempty"`    // InputDone: the same for people
	Exit    *job.Exit `json:"exit,omitempty"`    // Exited

	Terminal job.Terminal `json:"terminal,omitzero"` // Resize
}

// Start is all a runner needs for its job.
type Start struct {
	ID          job.ID           `json:"id"`
	Mode        job.Mode         `json:"mode"`
	Dir         string           `json:"dir"`       // the job's directory
	StateDir    string           `json:"state_dir"` // where the record lies
	Control     string           `json:"control"`   // path of the socket to listen on
	ServerLock  string           `json:"lock"`      // file that only the server of this state directory locks
	Cwd         string           `json:"cwd"`       // absolute
	Env         [][]byte         `json:"env"`       // NAME=VALUE, any bytes but NUL
	Terminal    job.Terminal     `json:"terminal"`  // pty
	Settings    config.Runner    `json:"settings"`
	Policy      isolation.Policy `json:"policy"`
	BusyTimeout time.Duration    `json:"busy_timeout"`
	Cgroup      string           `json:"cgroup,omitempty"` // directory of the job's control group; empty: it has none
	Mark        uint64           `json:"mark"`             // of the job's processes; lower than that of an earlier job of the runner
}

// Conn carries messages in both directions. Send may be called from several
// goroutines, Receive from one.
type Conn struct {
	c   net.Conn
	mu  sync.Mutex // guards writing
	buf []byte     // reused by Receive
}

// NewConn wraps a stream.
func NewConn(c net.Conn) *Conn { return &Conn{c: c} }

// Close ends the connection; a Receive under way fails.
func (c *Conn) Close() error { return c.c.Close() }

// Send writes one message.
func (c *Conn) Send(m Message) error {
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode control message: %w", err)
	}
	frame := make([]byte, 5, 5+len(b))
	binary.LittleEndian.PutUint32(frame, uint32(len(b)))
	frame[4] = byte(m.Kind)
	frame = append(frame, b...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.c.Write(frame); err != nil {
		return fmt.Errorf("send control message: %w", err)
	}
	return nil
}

// Receive reads one message. At the end of the stream it returns io.EOF.
func (c *Conn) Receive() (Message, error) {
	var head [5]byte
	if _, err := io.ReadFull(c.c, head[:]); err != nil {
		if err == io.EOF {
			return Message{}, err
		}
		return Message{}, fmt.Errorf("receive control message: %w", err)
	}
	n := int(binary.LittleEndian.Uint32(head[:]))
	if n > maxFrame {
		return Message{}, fmt.Errorf("receive control message: %d bytes are too many", n)
	}
	if cap(c.buf) < n {
		c.buf = make([]byte, n)
	}
	b := c.buf[:n]
	if n > keepBuffer {
		c.buf = nil
	}
	if _, err := io.ReadFull(c.c, b); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // cut after the head is no clean end
		}
		return Message{}, fmt.Errorf("receive control message: %w", err)
	}
	m := Message{}
	if err := json.Unmarshal(b, &m); err != nil {
		return Message{}, fmt.Errorf("decode control message: %w", err)
	}
	m.Kind = Kind(head[4])
	return m, nil
}

// keepBuffer is the largest buffer that outlives its message.
const keepBuffer = 64 << 10
