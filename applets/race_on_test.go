//go:build race

package applets_test

// raceEnabled is whether the race detector is built in; it multiplies memory.
const raceEnabled = true
