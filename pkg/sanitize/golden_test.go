package sanitize_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shellctl/pkg/sanitize"
)

var update = flag.Bool("update", false, "write the text of the recordings instead of comparing it")

// recordings are files of what real programs wrote to a terminal.
const recordings = "../../testdata/pty"

// eachRecording calls test with every recording and the text it must give.
func eachRecording(t *testing.T, test func(t *testing.T, raw []byte, want string)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(recordings, "*.raw"))
	if err != nil || len(files) == 0 {
		t.Fatalf("recordings: %v, %v", files, err)
	}
	for _, file := range files {
		base := strings.TrimSuffix(file, ".raw")
		t.Run(filepath.Base(base), func(t *testing.T) {
			t.Parallel()
			test(t, read(t, file), string(read(t, base+".txt")))
		})
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRecordings(t *testing.T) {
	if *update {
		writeTexts(t)
	}
	eachRecording(t, func(t *testing.T, raw []byte, want string) {
		if got := clean(t, string(raw)); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		checkPlain(t, want)
	})
}

func writeTexts(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(recordings, "*.raw"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text := clean(t, string(read(t, file)))
		if err := os.WriteFile(strings.TrimSuffix(file, ".raw")+".txt", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRecordingsAtEverySplit(t *testing.T) {
	eachRecording(t, func(t *testing.T, raw []byte, want string) {
		var out bytes.Buffer
		for i := range raw {
			out.Reset()
			f := sanitize.New(&out)
			write(t, f, raw[:i])
			write(t, f, raw[i:])
			closeFilter(t, f)
			if out.String() != want {
				t.Fatalf("split at %d gives\n%s", i, &out)
			}
		}
	})
}

func TestRecordingsInChunks(t *testing.T) {
	eachRecording(t, func(t *testing.T, raw []byte, want string) {
		for n := 1; n <= 64; n++ {
			if got := inChunks(t, raw, n); got != want {
				t.Fatalf("chunks of %d give\n%s", n, got)
			}
		}
	})
}

// However the text of a recording is shown early, its lines are all there.
func TestRecordingsAtAnyTiming(t *testing.T) {
	eachRecording(t, func(t *testing.T, raw []byte, want string) {
		for n := 1; n <= 64; n++ {
			var chunks [][]byte
			for rest := raw; len(rest) > 0; {
				k := min(n, len(rest))
				chunks, rest = append(chunks, rest[:k]), rest[k:]
			}
			checkTiming(t, raw, chunks)
		}
	})
}
