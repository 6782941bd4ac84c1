//go:build !race

package applets_test

const (
	underRace = false
	large     = 256 << 20
)
