package snapshot

import (
	"errors"
	"strings"
)

// glob is a pattern as a list of steps. It is run as an automaton: a place is
// the index of the step to come, len(glob) is a match.
type glob []step

type step struct {
	op  op
	set *[256]bool // of opSet
	b   byte       // of opByte
}

type op uint8

const (
	opByte op = iota // this byte
	opAny            // one byte other than "/"
	opSet            // one byte of the set, which never holds "/"
	opStar           // any number of bytes other than "/"
	opDeep           // any number of bytes
	opOpt            // nothing, or the step that follows
	opDirs           // any number of bytes and a "/"
)

// literalPrefix returns how much of a pattern stands for itself.
func literalPrefix(p string) int {
	if i := strings.IndexAny(p, `*?[\`); i >= 0 {
		return i
	}
	return len(p)
}

var (
	errBackslash = errors.New("ends in a backslash")
	errBracket   = errors.New("has a bracket without end")
	errClass     = errors.New("names an unknown character class")
)

// compileGlob reads a pattern as git's wildmatch does. In a path pattern only
// "**" between slashes crosses directories; git matches the literal text in
// front by itself, so that what follows it counts as a beginning too.
func compileGlob(p string, path bool) (glob, error) {
	var g glob
	begin := literalPrefix(p)
	for i := 0; i < len(p); {
		switch c := p[i]; c {
		case '*':
			end := i + 1
			for end < len(p) && p[end] == '*' {
				end++
			}
			lead := i == begin || p[i-1] == '/'
			var size int
			g, size = appendStars(g, p[end:], path && end-i > 1 && lead)
			i = end + size
		case '?':
			g = append(g, step{op: opAny})
			i++
		case '[':
			set, size, err := parseSet(p[i:])
			if err != nil {
				return nil, err
			}
			g = append(g, step{op: opSet, set: set})
			i += size
		case '\\':
			if i+1 == len(p) {
				return nil, errBackslash
			}
			g = append(g, step{op: opByte, b: p[i+1]})
			i += 2
		default:
			g = append(g, step{op: opByte, b: c})
			i++
		}
	}
	return g, nil
}

// appendStars adds a run of stars and returns how much of the rest it covers.
func appendStars(g glob, rest string, deep bool) (glob, int) {
	switch {
	case deep && strings.HasPrefix(rest, "/"):
		return append(g, step{op: opOpt}, step{op: opDirs}), 1
	case deep && (rest == "" || strings.HasPrefix(rest, `\/`)):
		return append(g, step{op: opDeep}), 0
	}
	return append(g, step{op: opStar}), 0
}

// lastName returns the places from which a match can come without a "/".
func (g glob) lastName(at []int32) []int32 {
	var last []int32
	for _, p := range at {
		if !g.needsSlash(int(p)) {
			last = append(last, p)
		}
	}
	return last
}

func (g glob) needsSlash(p int) bool {
	for p < len(g) {
		switch s := g[p]; {
		case s.op == opDirs, s.op == opByte && s.b == '/':
			return true
		case s.op == opOpt:
			p++ // the step that may be left out is an opDirs
		}
		p++
	}
	return false
}
