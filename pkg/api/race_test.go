//go:build race

package api

// Under the race detector pools drop what they are given, at random.
const pools = false
