package snapshot

import "strings"

// parseSet reads a bracket expression at the start of p and returns its length.
// A set holds bytes, not characters, and its classes are those of ASCII.
func parseSet(p string) (*[256]bool, int, error) {
	i := 1
	negate := i < len(p) && (p[i] == '!' || p[i] == '^')
	if negate {
		i++
	}
	set := new([256]bool)
	prev := 0 // what a range may begin with, or 0
	for first := true; ; first = false {
		if i >= len(p) {
			return nil, 0, errBracket
		}
		if p[i] == ']' && !first {
			break
		}
		if name, size := classAt(p[i:]); size > 0 {
			if !addClass(set, name) {
				return nil, 0, errClass
			}
			i, prev = i+size, 0
			continue
		}
		isRange := p[i] == '-' && prev != 0 && i+1 < len(p) && p[i+1] != ']'
		if isRange {
			i++
		}
		if p[i] == '\\' {
			i++
		}
		if i >= len(p) {
			return nil, 0, errBracket
		}
		c := int(p[i])
		i++
		if !isRange {
			set[c], prev = true, c
			continue
		}
		for b := prev; b <= c; b++ {
			set[b] = true
		}
		prev = 0
	}
	for b := range set {
		set[b] = set[b] != negate
	}
	set['/'] = false
	return set, i + 1, nil
}

// classAt returns the name of the class that p begins with, and its length.
func classAt(p string) (string, int) {
	rest, ok := strings.CutPrefix(p, "[:")
	if !ok {
		return "", 0
	}
	// The name ends at the first "]", and only ":]" makes it one.
	name, _, ok := strings.Cut(rest, "]")
	if !ok || !strings.HasSuffix(name, ":") {
		return "", 0
	}
	return name[:len(name)-1], len("[:") + len(name) + len("]")
}

func addClass(set *[256]bool, name string) bool {
	in := classes[name]
	if in == nil {
		return false
	}
	for b := range 128 {
		if in(byte(b)) {
			set[b] = true
		}
	}
	return true
}

func between(lo, hi byte) func(byte) bool {
	return func(c byte) bool { return lo <= c && c <= hi }
}

func either(fs ...func(byte) bool) func(byte) bool {
	return func(c byte) bool {
		for _, f := range fs {
			if f(c) {
				return true
			}
		}
		return false
	}
}

func oneOf(s string) func(byte) bool {
	return func(c byte) bool { return strings.IndexByte(s, c) >= 0 }
}

var (
	digit = between('0', '9')
	lower = between('a', 'z')
	upper = between('A', 'Z')
	punct = either(between('!', '/'), between(':', '@'), between('[', '`'), between('{', '~'))

	// classes are what git takes them for, which is not all that C does.
	classes = map[string]func(byte) bool{
		"alnum":  either(digit, lower, upper),
		"alpha":  either(lower, upper),
		"blank":  oneOf(" \t"),
		"cntrl":  either(between(0, 0x1f), between(0x7f, 0x7f)),
		"digit":  digit,
		"graph":  between('!', '~'),
		"lower":  lower,
		"print":  between(' ', '~'),
		"punct":  punct,
		"space":  oneOf(" \t\n\r"),
		"upper":  upper,
		"xdigit": either(digit, between('a', 'f'), between('A', 'F')),
	}
)
