package snapshot

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// The forms in which FuzzRestore takes its bytes.
const (
	asArchive = iota // as they are
	asTar            // as a tar stream, whose checksums are set right
	asEntries        // as a list of entries, see readItems
)

// FuzzRestore restores whatever comes into a home that has links out of it.
// Nothing outside may change, and nothing may hang.
//
// Run it with -fuzzminimizetime=10x: decoders use goroutines, so that the
// coverage of an input is not always the same and minimizing finds no end.
func FuzzRestore(f *testing.F) {
	for _, h := range hostile {
		if h.name != "sparse" {
			f.Add(tarOf(f, h.items...), asTar)
		}
	}
	f.Add(gnuSparse(), asTar)
	f.Add(pack(f, tarOf(f, fileItem("f", "x"))), asArchive)
	f.Add([]byte("\x02\x01\x03\x03\x08\x05\x00\x02\x03\x00"), asEntries)
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte, form int) {
		switch form {
		case asTar:
			data = enc.EncodeAll(fixChecksums(data), nil)
		case asEntries:
			data = enc.EncodeAll(tarOf(t, readItems(data)...), nil)
		}
		s := newStage(t, nodes{
			"out": {link: "../outside"}, "abs": {link: "/tmp"}, "in": {link: "d"},
			"d": {dir: nodes{"f": {data: "x"}, "up": {link: "../.."}}}, "f": {data: "x", mode: 0o444},
			"st": {dir: nodes{"db": {data: "live"}}},
		})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		opt := RestoreOptions{StateDir: filepath.Join(s.home, "st"), MaxBytes: 64 << 20, MaxEntries: 1000}
		stats, err := Restore(ctx, bytes.NewReader(data), s.home, opt)
		if ctx.Err() != nil {
			t.Errorf("took until the deadline: %+v, %v", stats, err)
		}
		s.untouched(t)
		s.noTemps(t)
		if got := s.content(t, "st/db"); got != "live" {
			t.Errorf("state is %q", got)
		}
	})
}

// fixChecksums lets a mutated header get past its first check.
func fixChecksums(data []byte) []byte {
	data = bytes.Clone(data)
	for block := range chunksOf(data, tarBlock) {
		if !bytes.HasPrefix(block[257:], []byte("ustar")) {
			continue
		}
		copy(block[148:156], "        ")
		sum := 0
		for _, c := range block {
			sum += int(c)
		}
		copy(block[148:], fmt.Sprintf("%06o\x00 ", sum))
	}
	return data
}

func chunksOf(data []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(data) >= size && yield(data[:size]) {
			data = data[size:]
		}
	}
}

// names are the components that readItems builds paths from.
var names = []string{"a", "d", "f", "in", "out", "abs", "up", "..", ".", "st", "db", ".local", "share", "shellctl", "victim", "outside"}

// readItems takes two bytes for the kind and the lengths of the two paths, and
// a byte for each of their components.
func readItems(data []byte) []item {
	var list []item
	kinds := []byte{tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink}
	for len(data) > 2 && len(list) < 50 {
		i := item{typ: kinds[data[0]%4], mode: int64(data[0]) << 2}
		n, k := int(data[1]%6), int(data[1]/6%6)
		i.name, data = readPath(data[2:], n)
		i.link, data = readPath(data, k)
		switch i.typ {
		case tar.TypeReg:
			i.data, i.link = i.link, ""
		case tar.TypeDir:
			i.link = ""
		}
		list = append(list, i)
	}
	return list
}

func readPath(data []byte, n int) (string, []byte) {
	n = min(n, len(data))
	var parts []string
	for _, c := range data[:n] {
		parts = append(parts, names[int(c)%len(names)])
	}
	return strings.Join(parts, "/"), data[n:]
}
