//go:build race

package snapshot

// slow divides the size of the large tests: the race detector makes the
// decoder some twenty times slower.
const slow = 10
