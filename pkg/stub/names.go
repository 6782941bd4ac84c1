package stub

import (
	"fmt"
	"iter"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is the longest name that Linux file systems take.
const maxName = 255

// checkName refuses a name that is not a plain entry of a directory, also with
// suffix behind it. The server's own rules are stricter.
func checkName(name, suffix string) error {
	switch {
	case name == "" || name == "." || name == "..",
		strings.ContainsAny(name, `/\`),
		strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("unsafe name %q", name)
	case len(name)+len(suffix) > maxName:
		return fmt.Errorf("name of %d bytes is too long", len(name))
	}
	return nil
}

// checkKey refuses a slash-separated key that is not a plain path below a
// directory.
func checkKey(key string) error {
	for part := range strings.SplitSeq(key, "/") {
		if err := checkName(part, ""); err != nil {
			return fmt.Errorf("unsafe key %s", strconv.Quote(key))
		}
	}
	return nil
}

// localName makes the name under which a download is stored of the name that
// the server gives it.
func localName(filename string) string {
	name := path.Base(filename)
	if name == "." || name == ".." || name == "/" {
		return "downloaded"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '_' // a line break would tear the printed path apart
		}
		return r
	}, name)
}

// freeNames yields name, then "name (1)", "name (2)" and so on with the number
// before the last extension. Long names are cut to what a directory can hold.
func freeNames(name string) iter.Seq[string] {
	ext := path.Ext(name)
	if len(ext) > 32 {
		ext = "" // a sentence with a dot, not an extension
	}
	stem := strings.TrimSuffix(name, ext)
	return func(yield func(string) bool) {
		number := ""
		for n := 1; ; n++ {
			if !yield(cutText(stem, maxName-len(number)-len(ext)) + number + ext) {
				return
			}
			number = fmt.Sprintf(" (%d)", n)
		}
	}
}

// cutText returns at most n bytes of s, and no half characters.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// shown is a name from outside as it stands in a message.
func shown(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}
