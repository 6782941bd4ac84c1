package sanitize

// Control characters, by the names of ECMA-48.
const (
	bel = 0x07
	bs  = 0x08
	can = 0x18
	sub = 0x1A
	esc = 0x1B
	del = 0x7F
)

// maxSequence bounds the bytes of a sequence, so that one without an end does not
// swallow the rest of the stream.
const maxSequence = 4 << 10

// state is a state of the parser, drawn in the package comment.
type state uint8

const (
	ground       state = iota
	escape             // behind ESC
	intermediate       // behind ESC and 20-2F
	inCSI
	inString // OSC, DCS, APC, PM, SOS
)

// parse takes terminal bytes.
func (f *Filter) parse(p []byte) {
	for len(p) > 0 {
		switch f.state {
		case ground:
			p = f.ground(p)
		case inString:
			p = f.str(p)
		default:
			p = f.sequence(p)
		}
	}
}

// ground takes text and returns what is behind it and behind the control
// character that ended it.
func (f *Filter) ground(p []byte) []byte {
	if f.nPart > 0 {
		return f.resume(p)
	}
	if p = p[f.take(p):]; len(p) == 0 {
		return nil
	}
	switch b := p[0]; {
	case b >= 0x80:
		return f.resume(p)
	case b == esc:
		if n := colour(p); n > 0 {
			return p[n:]
		}
		f.enter(escape)
	default:
		f.c0(b)
	}
	return p[1:]
}

// colour returns the length of the SGR sequence that p starts with, or 0. It is
// the one sequence that comes often enough for a way of its own.
func colour(p []byte) int {
	if len(p) < 3 || p[1] != '[' {
		return 0
	}
	for n := 2; n < len(p) && n < maxSequence; n++ {
		if p[n] == 'm' {
			return n + 1
		}
		if p[n] < '0' || p[n] > ';' {
			break
		}
	}
	return 0
}

// enter starts a sequence.
func (f *Filter) enter(s state) {
	f.state, f.size, f.lead = s, 0, false
	f.csi = csi{}
}

// sequence takes the bytes of an escape or control sequence.
func (f *Filter) sequence(p []byte) []byte {
	for i, b := range p {
		if b >= 0x80 || f.size == maxSequence {
			f.state = ground
			return p[i:]
		}
		f.size++
		switch {
		case b == esc:
			f.enter(escape)
		case b == can, b == sub:
			f.state = ground
		case b < ' ':
			f.c0(b)
		case b < del:
			f.step(b)
		}
		if f.state == ground || f.state == inString {
			return p[i+1:]
		}
	}
	return nil
}

// step takes a printable byte of an escape or control sequence.
func (f *Filter) step(b byte) {
	switch {
	case f.state == inCSI:
		f.csiByte(b)
	case b < '0':
		f.state = intermediate
	case f.state == escape:
		f.c1(b + 0x40) // ESC and a byte of 40-5F is C1 in 7 bits
	default:
		f.state = ground
	}
}

// str takes the bytes of a control string. Where it is cut at its greatest length
// the rest of a character goes with it, which is three bytes at most.
func (f *Filter) str(p []byte) []byte {
	for i, b := range p {
		if b == '\n' || f.size >= maxSequence && b&0xC0 != 0x80 || f.size >= maxSequence+3 {
			f.state = ground
			return p[i:]
		}
		f.size++
		switch {
		case f.lead && b < 0xA0 && b >= 0x80:
			f.state = ground
			f.c1(b)
		case b == esc:
			f.enter(escape)
		case b == can, b == sub, b == bel && f.osc:
			f.state = ground
		}
		f.lead = b == 0xC2
		if f.state != inString {
			return p[i+1:]
		}
	}
	return nil
}
