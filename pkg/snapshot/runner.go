package snapshot

// runner runs globs. It keeps the scratch memory of one walk: what walk returns
// is good until its next call.
type runner struct {
	cur, next []int32
	marks     []uint32 // the turn in which each place was added
	turn      uint32
}

// start returns the places a glob can be at in the beginning.
func (r *runner) start(g glob) []int32 {
	r.begin(g)
	return append([]int32(nil), r.add(g, nil, 0)...)
}

// matches reports whether the text leads from the places to a match.
func (r *runner) matches(g glob, at []int32, text string) bool {
	for _, i := range r.walk(g, at, text) {
		if int(i) == len(g) {
			return true
		}
	}
	return false
}

// walk returns the places after the text, in time proportional to its length
// and to the number of places.
func (r *runner) walk(g glob, at []int32, text string) []int32 {
	r.cur = append(r.cur[:0], at...)
	for i := 0; i < len(text) && len(r.cur) > 0; i++ {
		r.begin(g)
		out := r.next[:0]
		for _, p := range r.cur {
			out = r.step(g, out, p, text[i])
		}
		r.cur, r.next = out, r.cur
	}
	return r.cur
}

func (r *runner) step(g glob, out []int32, p int32, c byte) []int32 {
	if int(p) == len(g) {
		return out
	}
	switch s := &g[p]; s.op {
	case opByte:
		if s.b == c {
			out = r.add(g, out, p+1)
		}
	case opAny:
		if c != '/' {
			out = r.add(g, out, p+1)
		}
	case opSet:
		if s.set[c] {
			out = r.add(g, out, p+1)
		}
	case opStar:
		if c != '/' {
			out = r.add(g, out, p)
		}
	case opDeep:
		out = r.add(g, out, p)
	case opDirs:
		out = r.add(g, out, p)
		if c == '/' {
			out = r.add(g, out, p+1)
		}
	}
	return out
}

// begin starts a turn, in which each place is added once.
func (r *runner) begin(g glob) {
	if len(r.marks) <= len(g) {
		r.marks = make([]uint32, 2*len(g)+16)
		r.turn = 0
	}
	r.turn++
	if r.turn == 0 { // wrapped: old marks would look new
		clear(r.marks)
		r.turn = 1
	}
}

// add appends a place, and those that need no byte from there.
func (r *runner) add(g glob, out []int32, p int32) []int32 {
	for {
		if r.marks[p] == r.turn {
			return out
		}
		r.marks[p] = r.turn
		if int(p) == len(g) {
			return append(out, p)
		}
		switch g[p].op {
		case opOpt:
			out = r.add(g, out, p+2)
		case opStar, opDeep:
			out = append(out, p)
		default:
			return append(out, p)
		}
		p++
	}
}
