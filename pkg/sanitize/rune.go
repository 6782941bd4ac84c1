package sanitize

import "unicode/utf8"

// replacement stands for bytes that are no character.
const replacement = "\uFFFD"

// resume takes one character that is not ASCII, of which the first bytes may have
// come with the Write before, and returns what is behind it.
func (f *Filter) resume(p []byte) []byte {
	had, in := f.nPart, p
	if had > 0 {
		in = f.part[:had+copy(f.part[had:], p)]
	}
	f.nPart = 0
	r, size := utf8.DecodeRune(in)
	switch {
	case !utf8.FullRune(in):
		f.nPart = copy(f.part[:], in)
		return nil
	case r == utf8.RuneError && size == 1:
		size = subpart(in)
		f.text([]byte(replacement))
	case r < 0xA0:
		f.c1(byte(r))
	default:
		f.text(in[:size])
	}
	return p[size-had:]
}

// subpart returns the length of the maximal subpart of a character at the start
// of p: the longest start of one that could have been completed, or one byte.
func subpart(p []byte) int {
	n := 1
	for n < len(p) && !utf8.FullRune(p[:n+1]) {
		n++
	}
	return n
}
