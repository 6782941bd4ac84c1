package snapshot

import (
	"slices"
	"strings"
)

// matcher evaluates excludes for the names in one directory.
type matcher struct {
	ex   *Excludes // or nil: nothing is excluded
	run  *runner
	live []live // patterns with a slash that may match here or below, last first
	here []live // those that may match a name here, and only the places for it
}

// live is a pattern with the places it can be at after the directory's path.
type live struct {
	rule *rule
	at   []int32
}

// add keeps a pattern for the directory.
func (m *matcher) add(r *rule, at []int32) {
	m.live = append(m.live, live{r, at})
	if last := r.glob.lastName(at); len(last) > 0 {
		m.here = append(m.here, live{r, last})
	}
}

// top returns the matcher of the home.
func (ex *Excludes) top() matcher {
	if ex == nil {
		return matcher{}
	}
	m := matcher{ex: ex, run: &runner{}}
	for _, r := range ex.paths {
		m.add(r, r.first)
	}
	return m
}

// enter returns the matcher of a directory in this one.
func (m matcher) enter(name string) matcher {
	if m.ex == nil {
		return m
	}
	sub := matcher{ex: m.ex, run: m.run}
	for _, l := range m.live {
		at := m.run.walk(l.rule.glob, l.at, name)
		at = m.run.walk(l.rule.glob, at, "/")
		if len(at) > 0 {
			sub.add(l.rule, slices.Clone(at))
		}
	}
	return sub
}

// excluded reports whether the directory's entry is left out. It must not be
// asked for names in a directory that is.
func (m matcher) excluded(name string, isDir bool) bool {
	if m.ex == nil {
		return false
	}
	rank := m.ex.names[name].of(isDir)
	for _, n := range m.ex.lengths {
		if n <= len(name) {
			rank = max(rank, m.ex.suffixes[name[len(name)-n:]].of(isDir))
		}
	}
	for _, r := range m.ex.bases {
		if r.rank < rank {
			break
		}
		if (isDir || !r.dirOnly) && m.run.matches(r.glob, r.first, name) {
			rank = r.rank
		}
	}
	for _, l := range m.here {
		if l.rule.rank < rank {
			break
		}
		if (isDir || !l.rule.dirOnly) && m.run.matches(l.rule.glob, l.at, name) {
			rank = l.rule.rank
		}
	}
	return rank > 0 && !m.ex.rules[rank-1].negate
}

// excludes reports whether a path is left out, itself or with a directory above.
func (ex *Excludes) excludes(path string, isDir bool) bool {
	m := ex.top()
	for {
		name, rest, more := strings.Cut(path, "/")
		if m.excluded(name, isDir || more) {
			return true
		}
		if !more {
			return false
		}
		m, path = m.enter(name), rest
	}
}
