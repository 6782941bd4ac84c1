//go:build race

package applets_test

// Under the race detector this process is large and slow. A child's peak in
// its resource usage starts at the size of its parent, so it says nothing then.
const (
	underRace = true
	large     = 64 << 20
)
