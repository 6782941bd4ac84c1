package sanitize_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"shellctl/pkg/sanitize"
)

// Kinds of output that jobs print, each about 64 KiB.
func kinds() map[string][]byte {
	fill := func(line func(i int) string) []byte {
		var b bytes.Buffer
		for i := 0; b.Len() < 64<<10; i++ {
			b.WriteString(line(i))
		}
		return b.Bytes()
	}
	text := func(i int) string {
		return fmt.Sprintf("%06d /usr/lib/example/file-%d.o: section .text, relocation %d against symbol", i, i%97, i*31)
	}
	return map[string][]byte{
		"plain": fill(func(i int) string { return text(i) + "\n" }),
		"crlf":  fill(func(i int) string { return text(i) + "\r\n" }),
		"seq":   fill(func(i int) string { return fmt.Sprintf("%d\r\n", i) }),
		"long":  fill(func(int) string { return strings.Repeat("x", 1000) }),
		"build": fill(func(i int) string {
			return fmt.Sprintf("\x1b[0m\x1b[1m\x1b[32m   Compiling\x1b[0m example-%d v1.%d.0\r\n\x1b[1m\x1b[33mwarning\x1b[0m\x1b[1m: unused variable: `x%d`\x1b[0m\r\n \x1b[1m\x1b[34m--> \x1b[0msrc/main.rs:%d:5\x1b[K\r\n", i, i%7, i, i)
		}),
		"progress": fill(func(i int) string {
			return fmt.Sprintf("\r\x1b[K%3d%% [%-20s] %d kB/s", i%101, strings.Repeat("#", i%20), i)
		}),
		"utf8": fill(func(int) string { return "┌" + strings.Repeat("─", 40) + "┐ 表の中の文字 héllo\r\n" }),
		"binary": fill(func(i int) string {
			return string([]byte{byte(i), byte(i >> 3), byte(i * 7), byte(i * 13), 0xff, byte(i >> 8)})
		}),
	}
}

func BenchmarkWrite(b *testing.B) {
	for name, raw := range kinds() {
		b.Run(name, func(b *testing.B) {
			f := sanitize.New(io.Discard)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				write(b, f, raw)
			}
		})
	}
}

// In the steady state no Write allocates.
func TestWriteDoesNotAllocate(t *testing.T) {
	for name, raw := range kinds() {
		f := sanitize.New(io.Discard)
		write(t, f, raw)
		got := testing.AllocsPerRun(5, func() {
			write(t, f, raw)
			show(t, f)
		})
		if got != 0 {
			t.Errorf("%s: %v allocations per Write, want 0", name, got)
		}
	}
}
