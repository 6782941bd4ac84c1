package snapshot

import (
	"fmt"
	"slices"
	"strings"

	"shellctl/pkg/job"
)

// Excludes decide which entries a save leaves out. They are the lines of a
// .gitignore file in the home, and mean exactly what git takes them for: the
// last pattern that matches decides, and what lies in an excluded directory can
// not come back.
//
// No pattern is matched against a whole path. A pattern without a slash looks
// at the last component only, literal ones through a map; any other is a small
// automaton whose state after the directory's path is kept while the directory
// is walked, and dropped for the subtree once it can not match any more.
type Excludes struct {
	rules    []rule
	names    map[string]verdict // patterns that are a plain name
	suffixes map[string]verdict // patterns that are "*" and plain text
	lengths  []int              // of the suffixes, each once
	bases    []*rule            // other patterns without a slash, last first
	paths    []*rule            // patterns with a slash, last first
}

// rule is one pattern. Its place in the list is its rank, from 1.
type rule struct {
	rank    int
	negate  bool
	dirOnly bool
	glob    glob
	first   []int32 // where the glob begins
}

// verdict is the highest rank of the rules that say the same, for directories
// and for anything else.
type verdict struct{ dir, file int }

func (v verdict) add(r *rule) verdict {
	v.dir = r.rank
	if !r.dirOnly {
		v.file = r.rank
	}
	return v
}

func (v verdict) of(isDir bool) int {
	if isDir {
		return v.dir
	}
	return v.file
}

// CompileExcludes returns the excludes of a list of patterns. A pattern that git
// would silently never match because it is broken is an error.
func CompileExcludes(patterns []string) (*Excludes, error) {
	ex := &Excludes{
		rules:    make([]rule, 0, len(patterns)),
		names:    make(map[string]verdict),
		suffixes: make(map[string]verdict),
	}
	for _, p := range patterns {
		if err := ex.add(p); err != nil {
			return nil, job.Errorf(job.CodeInvalidRequest, "exclude pattern %q: %v", p, err)
		}
	}
	slices.Reverse(ex.bases)
	slices.Reverse(ex.paths)
	return ex, nil
}

func (ex *Excludes) add(line string) error {
	if strings.IndexByte(line, 0) >= 0 {
		return fmt.Errorf("holds a NUL byte")
	}
	text := trimLine(line)
	if text == "" || text[0] == '#' {
		return nil
	}
	r := rule{rank: len(ex.rules) + 1}
	text, r.negate = strings.CutPrefix(text, "!")
	text, r.dirOnly = strings.CutSuffix(text, "/")
	ex.rules = append(ex.rules, r) // never grown: pointers into it stay good
	return ex.file(&ex.rules[r.rank-1], text)
}

// file puts a rule where it is looked for.
func (ex *Excludes) file(r *rule, text string) error {
	var err error
	switch literal := literalPrefix(text); {
	case strings.Contains(text, "/"):
		r.glob, err = compileGlob(strings.TrimPrefix(text, "/"), true)
		ex.paths = append(ex.paths, r)
	case literal == len(text):
		ex.names[text] = ex.names[text].add(r)
	case text[0] == '*' && literalPrefix(text[1:]) == len(text)-1:
		ex.addSuffix(text[1:], r)
	default:
		r.glob, err = compileGlob(text, false)
		ex.bases = append(ex.bases, r)
	}
	r.first = new(runner).start(r.glob)
	return err
}

func (ex *Excludes) addSuffix(suffix string, r *rule) {
	if !slices.Contains(ex.lengths, len(suffix)) {
		ex.lengths = append(ex.lengths, len(suffix))
	}
	ex.suffixes[suffix] = ex.suffixes[suffix].add(r)
}

// trimLine drops what git drops at the end of a line: the CR of a CR LF, and
// spaces without a backslash.
func trimLine(s string) string {
	s = strings.TrimSuffix(s, "\r")
	end := 0
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		} else if s[i] == ' ' {
			continue
		}
		end = i + 1
	}
	return s[:end]
}
