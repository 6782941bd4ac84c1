package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"shellctl/pkg/config"
	"shellctl/pkg/job"
	"shellctl/pkg/manager"
)

// wholeBody is the body of run for encoding/json, which is the oracle.
type wholeBody struct {
	runBody
	Script string `json:"script"`
}

// spillTo makes files for scripts, each in a directory of its own in dir.
func spillTo(dir string) func() (*os.File, error) {
	return func() (*os.File, error) {
		own, err := os.MkdirTemp(dir, "job")
		if err != nil {
			return nil, err
		}
		return os.Create(filepath.Join(own, "script"))
	}
}

func noSpill() (*os.File, error) { return nil, errors.New("no spill was expected") }

func text(t testing.TB, s manager.Script) string {
	t.Helper()
	if s.File == nil {
		return string(s.Text)
	}
	b, err := os.ReadFile(s.File.Name())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Text) > 0 {
		t.Errorf("a script in a file has %d bytes in memory too", len(s.Text))
	}
	return string(b)
}

func codeOf(err error) job.Code {
	if e := (*job.Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// compare decodes data in several ways, and wants what encoding/json makes of it.
func compare(t *testing.T, data []byte) {
	t.Helper()
	var want wholeBody
	wantErr := json.NewDecoder(bytes.NewReader(data)).Decode(&want)
	accept := wantErr == nil && want.Script != ""
	for name, in := range map[string]io.Reader{"at once": bytes.NewReader(data), "byte by byte": iotest.OneByteReader(bytes.NewReader(data))} {
		body, script, err := decodeRun(in, noSpill)
		if (err == nil) != accept {
			t.Fatalf("%q %s: decodeRun says %v, encoding/json %v with script %q", data, name, err, wantErr, want.Script)
		}
		if err != nil {
			if codeOf(err) != job.CodeInvalidRequest {
				t.Errorf("%q: error %v of code %q", data, err, codeOf(err))
			}
			continue
		}
		if got := text(t, script); got != want.Script {
			t.Errorf("%q %s: script %q, want %q", data, name, got, want.Script)
		}
		if !reflect.DeepEqual(*body, want.runBody) {
			t.Errorf("%q %s: %+v, want %+v", data, name, *body, want.runBody)
		}
	}
}

var bodies = []string{
	``, ` `, `null`, `nullx`, ` null `, `nul`, `true`, `5`, `[]`, `"x"`, `{`, `}`, `{}`, `{}}`, ` { } `, `{,}`, `[}`,
	`{"script":`, `{"script"`, `{"script":"a"`, `{"script":"a`, `{"script":"a"}`, `{"script":"a",}`, `{,"script":"a"}`, `{"script":"a" "b"}`,
	`{"script":""}`, `{"script":null}`, `{"script":5}`, `{"script":["a"]}`, `{"script":{"a":"b"}}`, `{"script":nullx}`, `{"script":null }`,
	"\xef\xbb\xbf" + `{"script":"a"}`, `{"script":"echo ok"} trailing`, `{"script":"a"}{"script":"b"}`, `{"script":"a"}"`,
	`{"script":"one","script":"two"}`, `{"script":"one","script":null}`, `{"script":"one","script":""}`, `{"script":"one","script":5}`, `{"script":5,"script":"one"}`,
	`{"SCRIPT":"a","Script":"b"}`, `{"ſcript":"a"}`, `{"\u0073cript":"a"}`, `{"script ":"a"}`, `{"scr\ufffdipt":"a"}`, "{\"scr\xffipt\":\"a\"}", `{"x":{"script":"inner"},"script":"a"}`,
	"\t{\r\n \"script\" : \"a\" , \"cwd\" : \"/\" } ",
	`{"script":"\" \\ \/ \b \f \n \r \t \u0041 \u00e9 \u20AC \uffff \u0000"}`, `{"script":"\x"}`, `{"script":"\u12"}`, `{"script":"\u12g4"}`, `{"script":"\u+123"}`, `{"script":"\`, `{"script":"\u`,
	`{"script":"\ud83d\ude00"}`, `{"script":"\ud83d"}`, `{"script":"\ude00"}`, `{"script":"\ude00\ud83d"}`, `{"script":"\ud83dx"}`, `{"script":"\ud83d\n"}`, `{"script":"\ud83d\u0041"}`, `{"script":"\ud83d\ud83d\ude00"}`, `{"script":"\ud83d\u12"}`, `{"script":"\ud83d\u+e00"}`,
	"{\"script\":\"\xff\"}", "{\"script\":\"\xe2\x82\"}", "{\"script\":\"\xe2\x82\xac\"}", "{\"script\":\"\xe2\x82\\n\"}", "{\"script\":\"\xe2\x82x\"}", "{\"script\":\"\xe2\"}", "{\"script\":\"\xf0\x9f\x98\xe2\x82\xac\xed\xa0\x80\"}", "{\"script\":\"\xe2\x82\\u00e9\"}",
	"{\"script\":\"a\nb\"}", "{\"script\":\"a\x00b\"}", "{\"script\":\"a\x1fb\x7f\"}", "{\"scr\nipt\":\"a\"}",
	`{"script":"a","cwd":"/x","env":{"A":"1","B":null},"mode":"pty","terminal":{"cols":1},"timeout":1.5,"output_limit":7,"idle_flush_seconds":0.25}`,
	`{"cwd":"/x","script":"a","cwd":"/y","CWD":"/z"}`, `{"script":"a","env":{"A":"1"},"env":{"B":"2"}}`, `{"script":"a","terminal":{"cols":1},"terminal":{"rows":2}}`, `{"script":"a","terminal":null}`,
	`{"script":"a","env":null}`, `{"script":"a","env":[]}`, `{"script":"a","env":{"A":5}}`, `{"script":"a","env":{"A":"1","A":"2"}}`, `{"script":"a","mode":5}`, `{"script":"a","mode":null}`, `{"script":"a","cwd":5}`,
	`{"script":"a","timeout":"5"}`, `{"script":"a","timeout":1e309}`, `{"script":"a","timeout":null}`, `{"script":"a","timeout":-1}`, `{"script":"a","timeout":01}`, `{"script":"a","timeout":1.}`, `{"script":"a","output_limit":1.5}`, `{"script":"a","output_limit":9223372036854775808}`,
	`{"script":"a","x":[1,{"y":[]}],"z":"}]"}`, `{"script":"a","x":[1,}`, `{"script":"a","x":[}`, `{"script":"a","x":]}`, `{"script":"a","x":}`, `{"script":"a","x":1"y":2}`, `{"script":"a","x":tru}`, `{"script":"a","x":1 2}`, `{"script":"a","x":"\"}`, `{"script":"a","x":/**/1}`, `{"x":1,"script":"a","y":2}`, `{"x":1"script":"a"}`, `{'script':'a'}`, `{script:"a"}`, `{"script"="a"}`, `{"script":"a";"x":1}`,
}

func TestDecodeRunLikeEncodingJSON(t *testing.T) {
	for _, b := range bodies {
		compare(t, []byte(b))
	}
	compare(t, []byte(`{"script":"a","x":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+`}`))
	compare(t, []byte(`{"script":"a","x":`+strings.Repeat("[", 11000)+strings.Repeat("]", 11000)+`}`))
	for at := range len(bodies[60]) {
		compare(t, []byte(bodies[60][:at]))
	}
}

func FuzzDecodeRun(f *testing.F) {
	for _, b := range bodies {
		f.Add([]byte(b))
	}
	f.Fuzz(compare)
}

// A large script goes to a file, whatever it is made of and however it arrives.
func TestDecodeRunSpills(t *testing.T) {
	for name, unit := range map[string]string{
		"plain": "x", "escapes": `\n`, "escaped characters": `\u20ac`, "pairs": `\ud83d\ude00`, "text": "aé€😀z", "no text": "\xff\xe2\x82",
	} {
		for _, n := range []int{scriptInMemory - 8, scriptInMemory + 8} {
			data := []byte(`{"cwd":"/a","script":"` + strings.Repeat(unit, n/len(unit)+1) + `","env":{"A":"b"}} rest`)
			var want wholeBody
			if err := json.NewDecoder(bytes.NewReader(data)).Decode(&want); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			body, script, err := decodeRun(iotest.HalfReader(bytes.NewReader(data)), spillTo(dir))
			if err != nil {
				t.Fatalf("%s, %d: %v", name, n, err)
			}
			if got := text(t, script); got != want.Script {
				t.Errorf("%s, %d: script of %d bytes differs, want %d", name, n, len(got), len(want.Script))
			}
			if spilled := script.File != nil; spilled != (len(want.Script) > scriptInMemory) {
				t.Errorf("%s: %d bytes, in a file: %v", name, len(want.Script), spilled)
			}
			if !reflect.DeepEqual(*body, want.runBody) {
				t.Errorf("%s: %+v", name, *body)
			}
			script.Discard()
			wantEmpty(t, dir)
		}
	}
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	if left, err := filepath.Glob(dir + "/*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// No file stays of a body that is refused, nor of a script that another follows.
func TestDecodeRunLeavesNoFile(t *testing.T) {
	big := strings.Repeat("x", 2*scriptInMemory)
	for name, data := range map[string]string{
		"cut in the script": `{"script":"` + big,
		"cut after it":      `{"script":"` + big + `"`,
		"bad escape":        `{"script":"` + big + `\x"}`,
		"bad field":         `{"script":"` + big + `","cwd":5}`,
		"emptied":           `{"script":"` + big + `","script":""}`,
		"of another type":   `{"script":"` + big + `","script":5}`,
	} {
		dir := t.TempDir()
		if _, _, err := decodeRun(strings.NewReader(data), spillTo(dir)); codeOf(err) != job.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
		wantEmpty(t, dir)
	}
	dir := t.TempDir()
	_, script, err := decodeRun(strings.NewReader(`{"script":"`+big+`","script":"short"}`), spillTo(dir))
	if err != nil || text(t, script) != "short" || script.File != nil {
		t.Errorf("the last script wins: %v", err)
	}
	wantEmpty(t, dir)
	_, script, err = decodeRun(strings.NewReader(`{"script":"short","script":"`+big+`"}`), spillTo(dir))
	if err != nil || text(t, script) != big {
		t.Errorf("the last script wins: %v", err)
	}
}

// A client that stops sending is not told apart from a cut body.
func TestDecodeRunReadFailure(t *testing.T) {
	dir := t.TempDir()
	in := io.MultiReader(strings.NewReader(`{"script":"`+strings.Repeat("x", 2*scriptInMemory)), iotest.ErrReader(errors.New("gone")))
	if _, _, err := decodeRun(in, spillTo(dir)); codeOf(err) != job.CodeInvalidRequest {
		t.Errorf("%v", err)
	}
	wantEmpty(t, dir)
}

// A disk that takes no script is our failure and not the client's.
func TestDecodeRunSpillFailure(t *testing.T) {
	for _, size := range []int{scriptInMemory + 1, 2 * scriptInMemory} {
		body := `{"script":"` + strings.Repeat("x", size) + `"}`
		full := errors.New("disk full")
		if _, _, err := decodeRun(strings.NewReader(body), func() (*os.File, error) { return nil, full }); !errors.Is(err, full) || codeOf(err) != "" {
			t.Errorf("no file: %v", err)
		}
		dir := t.TempDir()
		readOnly := func() (*os.File, error) {
			f, err := spillTo(dir)()
			if err != nil {
				return nil, err
			}
			defer f.Close()
			return os.Open(f.Name())
		}
		if _, _, err := decodeRun(strings.NewReader(body), readOnly); err == nil || codeOf(err) != "" {
			t.Errorf("no write: %v", err)
		}
		wantEmpty(t, dir)
	}
}

func TestDecodeRunBoundsTheOtherFields(t *testing.T) {
	fits := `{"script":"a","env":{"A":"` + strings.Repeat("x", 1<<20) + `"}}`
	if _, _, err := decodeRun(strings.NewReader(fits), noSpill); err != nil {
		t.Error(err)
	}
	for name, in := range map[string]string{"a string": `"x`, "an array": `[`, "a number": `1`} {
		d := &runDecoder{in: bufio.NewReader(io.MultiReader(strings.NewReader(in[1:]), endless('1')))}
		d.rest.Write(make([]byte, config.MaxFieldBytes-100)) // what came before
		err := d.value(in[0])
		if codeOf(err) != job.CodeInvalidRequest || !strings.Contains(err.Error(), "16777216 bytes") || d.rest.Len() > config.MaxFieldBytes {
			t.Errorf("%s: %v with %d bytes kept", name, err, d.rest.Len())
		}
	}
}

// endless is a reader of one byte again and again.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

// A script of 16 MiB takes no more memory than one of 256 KiB, so neither does any larger one.
func TestDecodeRunMemory(t *testing.T) {
	line := strings.Repeat("QUJD", 19) + `\n`
	const lines = 16 << 20 / 78 / 1000 * 1000
	in := io.MultiReader(strings.NewReader(`{"script":"`), &repeat{text: strings.Repeat(line, 1000), left: lines / 1000}, strings.NewReader(`"}`))
	dir := t.TempDir()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, script, err := decodeRun(in, spillTo(dir))
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := script.File.Stat(); err != nil || st.Size() != lines*77 {
		t.Errorf("script of %v bytes, %v, want %d", st.Size(), err, lines*77)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 2<<20 {
		t.Errorf("%d bytes were allocated", took)
	}
	script.Discard()
}

// repeat is a reader of the same text several times.
type repeat struct {
	text string
	left int
	rest string
}

func (r *repeat) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if r.rest == "" {
			if r.left == 0 {
				break
			}
			r.left--
			r.rest = r.text
		}
		k := copy(p[n:], r.rest)
		r.rest = r.rest[k:]
		n += k
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func BenchmarkDecodeRun(b *testing.B) {
	data := []byte(`{"script":"` + strings.Repeat(strings.Repeat("QUJD", 19)+`\n`, 1<<14) + `"}`)
	dir := b.TempDir()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		_, script, err := decodeRun(bytes.NewReader(data), spillTo(dir))
		if err != nil {
			b.Fatal(err)
		}
		script.Discard()
	}
}
