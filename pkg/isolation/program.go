package isolation

import "golang.org/x/sys/unix"

// Where a seccomp program finds what it looks at, in struct seccomp_data. Both
// architectures are little-endian, so the low half of an argument comes first.
const (
	offsetNr   = 0
	offsetArch = 4
	offsetArgs = 16
)

const (
	loadWord  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	jumpEqual = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	jumpAbove = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	jumpBits  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	giveBack  = unix.BPF_RET | unix.BPF_K
)

// program is a seccomp program in the making. Between two of its rules the
// register holds the number of the call; a rule that looks at arguments decides
// for its call, so none has to load the number again.
type program struct {
	code []unix.SockFilter
}

func (b *program) add(code uint16, k uint32, yes, no uint8) {
	b.code = append(b.code, unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k})
}

func (b *program) load(offset uint32)                      { b.add(loadWord, offset, 0, 0) }
func (b *program) when(op uint16, k uint32, yes, no uint8) { b.add(op, k, yes, no) }
func (b *program) ret(action uint32)                       { b.add(giveBack, action, 0, 0) }
func (b *program) fail(errno unix.Errno)                   { b.ret(retErrno | uint32(errno)) }

func arg(n uint32) uint32 { return offsetArgs + 8*n }

// denyCall refuses a call whatever its arguments.
func (b *program) denyCall(nr uint32, errno unix.Errno) {
	b.when(jumpEqual, nr, 0, 1)
	b.fail(errno)
}

// denyAbove refuses all calls from a number on.
func (b *program) denyAbove(nr uint32, errno unix.Errno) {
	b.when(jumpAbove, nr, 0, 1)
	b.fail(errno)
}

// denyBits refuses a call if its nth argument has one of the bits.
func (b *program) denyBits(nr, n, bits uint32, errno unix.Errno) {
	b.when(jumpEqual, nr, 0, 4)
	b.load(arg(n))
	b.when(jumpBits, bits, 0, 1)
	b.fail(errno)
	b.ret(retAllow)
}

// denyValues refuses a call if its nth argument is one of two values.
func (b *program) denyValues(nr, n uint32, errno unix.Errno, v1, v2 uint32) {
	b.when(jumpEqual, nr, 0, 5)
	b.load(arg(n))
	b.when(jumpEqual, v1, 1, 0)
	b.when(jumpEqual, v2, 0, 1)
	b.fail(errno)
	b.ret(retAllow)
}

// denySocket refuses sockets that carry TCP under another name.
func (b *program) denySocket(errno unix.Errno) {
	b.when(jumpEqual, unix.SYS_SOCKET, 0, 6)
	b.load(arg(0))
	b.when(jumpEqual, familySMC, 2, 0)
	b.load(arg(2))
	b.when(jumpEqual, protoMPTCP, 0, 1)
	b.fail(errno)
	b.ret(retAllow)
}
