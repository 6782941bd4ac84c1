package snapshot

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// FuzzRestore feeds tar streams, valid or not, to a home that has links out of
// it. Nothing outside may change, and nothing may hang.
func FuzzRestore(f *testing.F) {
	for _, h := range hostile {
		if h.name != "sparse" {
			f.Add(tarOf(f, h.items...), false)
		}
	}
	f.Add(gnuSparse(), false)
	f.Add(tarOf(f,
		dirItem("d"), fileItem("d/f", "x"), hardItem("h", "d/f"), linkItem("d/l", "../out"), fileItem("out/victim", "x"),
		item{name: "x", data: "y", pax: map[string]string{"SCHILY.xattr.user.k": "v"}}), false)
	f.Add(pack(f, tarOf(f, fileItem("f", "x"))), true)
	f.Add([]byte{}, true)
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte, packed bool) {
		if !packed {
			data = enc.EncodeAll(data, nil)
		}
		s := newStage(t, nodes{
			"out": {link: "../outside"}, "abs": {link: filepath.Dir(t.TempDir())}, "in": {link: "d"},
			"d": {dir: nodes{"f": {data: "x"}, "up": {link: "../.."}}}, "f": {data: "x", mode: 0o444},
			"st": {dir: nodes{"db": {data: "live"}}},
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		opt := RestoreOptions{StateDir: filepath.Join(s.home, "st"), MaxBytes: 64 << 20}
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
