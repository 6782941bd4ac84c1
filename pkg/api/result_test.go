package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"

	"shellctl/pkg/joblog"
	"shellctl/pkg/manager"
)

// whole is the answer as encoding/json makes it in one go.
func whole(t testing.TB, r manager.Result, output string) string {
	t.Helper()
	var b bytes.Buffer
	err := json.NewEncoder(&b).Encode(struct {
		resultHead
		Output string `json:"output"`
		resultTail
	}{resultHead{r.ID, r.Status.Terminal(), r.Status, r.ExitCode, r.OutputPath}, output, resultTail{r.Window.Offset, r.Window.More}})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestResultInPieces: the answer is byte for byte that of encoding/json.
func TestResultInPieces(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	j := &jobs{dir: t.TempDir(), result: manager.Result{ID: id, OutputPath: `/a "b"`}}
	for _, size := range []int{1, 100, 4 << 10, 20 << 10, 100 << 10} {
		var text strings.Builder
		for text.Len() < size {
			text.WriteString([]string{"a line", "\n", "\x00\x1b", "<&>", "\u2028", "é€😀", `\"`, "\x7f"}[rnd.IntN(8)])
		}
		j.output = text.String()
		r, err := j.answer()
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		if err := writeResult(w, r); err != nil || w.Body.String() != whole(t, r, j.output) {
			t.Errorf("%d bytes: %v, the answer differs", size, err)
		}
	}
}

// TestResultMemory: the largest window of control characters, 3 MiB of JSON,
// costs little, while it is made and for a client that does not take it.
func TestResultMemory(t *testing.T) {
	j := &jobs{dir: t.TempDir(), output: strings.Repeat("\x01", 512<<10)}
	var before, after runtime.MemStats
	for range 2 { // the first fills the pools
		r, err := j.answer()
		if err != nil {
			t.Fatal(err)
		}
		w := &countingWriter{header: http.Header{}}
		runtime.ReadMemStats(&before)
		if err := writeResult(w, r); err != nil || w.n < 6*512<<10 {
			t.Fatal(w.n, err)
		}
		runtime.ReadMemStats(&after)
	}
	if all := after.TotalAlloc - before.TotalAlloc; pools && all > 1<<20 {
		t.Errorf("%d KiB were allocated in all", all>>10)
	}
}

type countingWriter struct {
	header http.Header
	n      int
	err    error
}

func (w *countingWriter) Header() http.Header         { return w.header }
func (w *countingWriter) WriteHeader(int)             {}
func (w *countingWriter) Write(p []byte) (int, error) { w.n += len(p); return len(p), w.err }

// TestResultFails: an output that can not be read is an error while nothing is
// sent, later the answer is cut; a client that went is none.
func TestResultFails(t *testing.T) {
	j := &jobs{dir: t.TempDir(), output: strings.Repeat("x", 100<<10)}
	open := func(cut int64) manager.Result {
		r, err := j.answer()
		if err == nil {
			err = r.File.Truncate(cut)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	w := &countingWriter{header: http.Header{}}
	if err := writeResult(w, open(5000)); !errors.Is(err, io.EOF) || w.n > 0 {
		t.Errorf("at once: %v, %d bytes sent", err, w.n)
	}
	func() {
		defer func() {
			if v := recover(); v != http.ErrAbortHandler {
				t.Errorf("later: %v", v)
			}
		}()
		_ = writeResult(httptest.NewRecorder(), open(50_000))
	}()
	r := open(100 << 10)
	w = &countingWriter{header: http.Header{}, err: errors.New("gone")}
	if err := writeResult(w, r); err != nil || w.n > 2*piece {
		t.Errorf("the client went: %v, %d bytes sent", err, w.n)
	}
	if _, err := r.File.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the output stays open: %v", err)
	}
}

func BenchmarkResult(b *testing.B) {
	j := &jobs{dir: b.TempDir()}
	a := New(j, "", slog.New(slog.DiscardHandler))
	for name, text := range map[string]string{"small": "ok\n", "16KiB": strings.Repeat("a line of output\n", 1000), "512KiB control": strings.Repeat("\x01", 512<<10)} {
		f, err := os.CreateTemp(b.TempDir(), "")
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				file, err := os.Open(f.Name())
				if err != nil {
					b.Fatal(err)
				}
				j.result = manager.Result{ID: id, Window: joblog.Window{Offset: int64(len(text))}, File: file}
				a.ServeHTTP(&countingWriter{header: http.Header{}}, httptest.NewRequestWithContext(b.Context(), "POST", "/v1/jobs/"+id+"/wait", strings.NewReader("{}")))
			}
		})
	}
}
