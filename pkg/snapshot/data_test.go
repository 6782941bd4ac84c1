package snapshot

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
)

// randomText returns bytes that do not compress.
func randomText(n int, seed uint64) string {
	rnd := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, rnd.Uint64())
	}
	return string(b[:n])
}

// sourceText returns text that compresses as program source does.
func sourceText(n int, seed uint64) string {
	rnd := rand.New(rand.NewPCG(seed, 1))
	words := make([]string, 400)
	for i := range words {
		word := make([]byte, 2+rnd.IntN(9))
		for j := range word {
			word[j] = "etaoinshrdlucmfwypvbgkjqxz"[min(rnd.IntN(26), rnd.IntN(26))]
		}
		words[i] = string(word)
	}
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(strings.Repeat("\t", rnd.IntN(4)))
		for range 1 + rnd.IntN(8) {
			b.WriteString(words[min(rnd.IntN(len(words)), rnd.IntN(len(words)))])
			b.WriteByte(" .(),={}\"_"[rnd.IntN(10)])
		}
		fmt.Fprintf(&b, "%d\n", rnd.IntN(1000))
	}
	return b.String()[:n]
}
