package applets_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestHTTP plays the files in testdata/http against a real server. Such a file
// is a list of exchanges:
//
//	# what it shows
//	> POST /v1/jobs/run {"script":"echo hello"}
//	> Authorization: none                        (headers; optional)
//	< 200
//	{"job_id":"<id1>","done":true,…}             (the body, to the byte)
//
// In bodies <state>, <home> and <ts> stand for the state directory, HOME and a
// time, <n> for a number, <id1>, <id2>, … for job ids: the first answer that has one sets it.
func TestHTTP(t *testing.T) {
	files, err := filepath.Glob("../testdata/http/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			opt := serverOptions{env: []string{"SHELLCTL_ENABLE_PATH_ISOLATION=false"}, noToken: strings.Contains(file, "notoken")}
			play(t, startServer(t, opt), file)
		})
	}
}

type exchange struct {
	line    int
	request string // METHOD PATH BODY
	header  []string
	status  string
	body    string
}

func play(t *testing.T, s *testServer, file string) {
	ids := map[string]string{}
	for _, x := range readExchanges(t, file) {
		f := strings.SplitN(fill(s, ids, x.request), " ", 3)
		body := ""
		if len(f) == 3 {
			body = f[2]
		}
		header := x.header
		for i := 1; i < len(header); i += 2 {
			if header[i] == "none" {
				header[i] = ""
			}
		}
		status, got := s.call(f[0], f[1], body, header...)
		if fmt.Sprint(status) != x.status {
			t.Errorf("%s:%d: %s = %d %.400s, want %s", file, x.line, x.request, status, got, x.status)
			continue
		}
		if want := pattern(s, ids, x.body); !match(want, got, ids) {
			t.Errorf("%s:%d: %s\n got %.2000s\nwant %s", file, x.line, x.request, got, x.body)
		}
	}
}

func readExchanges(t *testing.T, file string) []exchange {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []exchange
	for i, line := range strings.Split(string(b), "\n") {
		last := len(out) - 1
		switch {
		case strings.HasPrefix(line, "#") || line == "":
		case strings.HasPrefix(line, "> ") && (last < 0 || out[last].status != ""):
			out = append(out, exchange{line: i + 1, request: line[2:]})
		case strings.HasPrefix(line, "> "):
			name, value, _ := strings.Cut(line[2:], ": ")
			out[last].header = append(out[last].header, name, value)
		case strings.HasPrefix(line, "< "):
			out[last].status = line[2:]
		default:
			out[last].body += line + "\n"
		}
	}
	return out
}

var placeholder = regexp.MustCompile(`<(state|home|ts|n|id\d+)>`)

// fill puts known values into a request.
func fill(s *testServer, ids map[string]string, text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(p string) string {
		switch p {
		case "<state>":
			return s.state
		case "<home>":
			return s.home
		}
		return ids[p[1:len(p)-1]]
	})
}

// pattern turns an expected body into a regular expression.
func pattern(s *testServer, ids map[string]string, text string) *regexp.Regexp {
	var b strings.Builder
	seen := map[string]bool{}
	at := 0
	for _, m := range placeholder.FindAllStringIndex(text, -1) {
		b.WriteString(regexp.QuoteMeta(text[at:m[0]]))
		name := text[m[0]+1 : m[1]-1]
		switch {
		case name == "n":
			b.WriteString(`\d+`)
		case name == "ts":
			b.WriteString(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
		case name == "state" || name == "home":
			b.WriteString(regexp.QuoteMeta(fill(s, ids, "<"+name+">")))
		case ids[name] != "":
			b.WriteString(ids[name])
		case seen[name]:
			b.WriteString(`[0-9a-f]{16}`)
		default:
			seen[name] = true
			b.WriteString(`(?P<` + name + `>[0-9a-f]{16})`)
		}
		at = m[1]
	}
	b.WriteString(regexp.QuoteMeta(text[at:]))
	return regexp.MustCompile(`^` + b.String() + `$`)
}

// match compares and learns the ids that are new.
func match(want *regexp.Regexp, got string, ids map[string]string) bool {
	m := want.FindStringSubmatch(got)
	for i, name := range want.SubexpNames() {
		if m != nil && name != "" {
			ids[name] = m[i]
		}
	}
	return m != nil
}
