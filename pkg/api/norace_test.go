//go:build !race

package api

const pools = true
