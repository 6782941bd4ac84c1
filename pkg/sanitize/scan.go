package sanitize

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Every byte of a word that equals the one named.
const (
	each01 = 0x0101010101010101
	each7F = 0x7F * each01
	each80 = 0x80 * each01
)

// copyPlain copies the plain text and line feeds at the start of p to dst, without
// the CR before LF. It returns how much was read and written. dst is as long as p.
func copyPlain(dst, p []byte) (read, wrote int) {
	for {
		n := plain(p[read:])
		wrote += copy(dst[wrote:], p[read:read+n])
		read += n
		cr := returns(p[read:])
		if cr == 0 {
			return read, wrote
		}
		read += cr
	}
}

// plain returns how many bytes at the start of p are plain text or line feeds:
// whole characters of UTF-8 without any control but TAB and LF.
func plain(p []byte) int {
	n := 0
	for {
		n += ascii(p[n:])
		if n == len(p) || p[n] < utf8.RuneSelf {
			return n
		}
		for n < len(p) && p[n] >= utf8.RuneSelf {
			size := char(p[n:])
			if size == 0 {
				return n
			}
			n += size
		}
	}
}

// ascii returns how many bytes at the start of p are printable ASCII, TAB or LF.
func ascii(p []byte) int {
	n := 0
	for ; len(p)-n >= 8; n += 8 {
		if m := special(binary.LittleEndian.Uint64(p[n:])); m != 0 {
			return n + bits.TrailingZeros64(m)/8
		}
	}
	for n < len(p) && (p[n] >= ' ' && p[n] < del || p[n] == '\t' || p[n] == '\n') {
		n++
	}
	return n
}

// special returns a word with the top bit set of every byte of x that is neither
// printable ASCII nor TAB nor LF. The top bits of high are set, so that no
// subtraction borrows from the next byte.
func special(x uint64) uint64 {
	high := x | each80
	text := high - ' '*each01
	tabOrLF := (high - '\t'*each01) &^ (high - ('\n'+1)*each01)
	delete := x&each7F + each01
	return (^(text | tabOrLF) | delete | x) & each80
}

// returns returns how many CR come before the LF that p starts with, or 0.
func returns(p []byte) int {
	n := 0
	for n < len(p) && p[n] == '\r' {
		n++
	}
	if n == len(p) || p[n] != '\n' {
		return 0
	}
	return n
}

// char returns the size of the character that p starts with, of those that are
// not ASCII and no control. It is 0 if there is none.
func char(p []byte) int {
	if p[0] > 0xE0 && p[0] < 0xED && len(p) > 2 && p[1]&0xC0 == 0x80 && p[2]&0xC0 == 0x80 {
		return 3 // most of what is not ASCII
	}
	r, size := utf8.DecodeRune(p)
	if r < 0xA0 || r == utf8.RuneError && size == 1 {
		return 0
	}
	return size
}
