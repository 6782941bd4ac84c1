//go:build !race

package snapshot

const slow = 1
