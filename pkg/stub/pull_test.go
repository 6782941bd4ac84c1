package stub_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shellctl/pkg/stub"
)

// zipOf makes an archive of names and texts.
func zipOf(t *testing.T, files ...string) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// TestPullParallel holds every download back until four are under way, and then
// answers them last first: the results still come in the order of the names.
func TestPullParallel(t *testing.T) {
	const names = 12
	var mu sync.Mutex
	active, most := 0, 0
	full := make(chan struct{})
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			var body struct{ Config struct{ Name string } }
			json.NewDecoder(r.Body).Decode(&body)
			fmt.Fprintf(w, `{"download_url":"http://%s/dl?%s"}`, r.Host, body.Config.Name)
			return
		}
		mu.Lock()
		active++
		if most = max(most, active); active == 4 && most == 4 {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		mu.Unlock()
		<-full
		mu.Lock()
		active--
		mu.Unlock()
		fmt.Fprint(w, r.URL.RawQuery)
	})
	c := newClient(server.URL)
	c.SetTimeouts(10 * time.Second) // without four at once this would wait forever
	var want []string
	for i := range names {
		want = append(want, fmt.Sprintf("f%02d", names-i))
	}
	files, err := c.PullFiles(t.Context(), want, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Name)
	}
	if !slices.Equal(got, want) || most != 4 {
		t.Errorf("got %q with %d at once, want %q with 4", got, most, want)
	}
}

// TestPullConcurrently has many invocations pull the same skill into one
// place, as the server makes them do, in two versions. Each must see a whole
// version, and leave nothing else behind.
func TestPullConcurrently(t *testing.T) {
	fake, c := newFake(t)
	dir := t.TempDir()
	versions := [][]byte{zipOf(t, "SKILL.md", "one", "a", "one"), zipOf(t, "SKILL.md", "two", "b", "two")}
	fake.AddSkill("s", versions[0])
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			if i == 12 {
				fake.AddSkill("s", versions[1])
			}
			skills, err := c.PullSkills(t.Context(), []string{"s"}, dir)
			if err != nil {
				t.Error(err)
			} else if text := skills[0].Text; text != "one" && text != "two" {
				t.Errorf("text %q", text)
			}
		})
	}
	wg.Wait()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 || entries[0].Name() != "s" || entries[1].Name() != "s.zip" {
		t.Errorf("entries %v, %v", entries, err)
	}
	inside, err := os.ReadDir(filepath.Join(dir, "s"))
	if err != nil || len(inside) != 2 {
		t.Errorf("inside %v, %v", inside, err)
	}
}

// TestPullReadOnlyTree replaces a version whose directories cannot be written.
func TestPullReadOnlyTree(t *testing.T) {
	fake, c := newFake(t)
	dir := t.TempDir()
	sub := filepath.Dir(write(t, filepath.Join(dir, "s", "sub", "f"), "old"))
	if err := os.Chmod(sub, 0o555); err != nil {
		t.Fatal(err)
	}
	fake.AddSkill("s", zipOf(t, "SKILL.md", "new"))
	if _, err := c.PullSkills(t.Context(), []string{"s"}, dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "s", "SKILL.md")); err != nil {
		t.Error(err)
	}
	filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error { return os.Chmod(path, 0o755) })
}

func TestUnsizedDownload(t *testing.T) {
	fake, c := newFake(t)
	c.SetUnsized(1000)
	fake.AddFile("fits", make([]byte, 1000))
	fake.AddFile("large", make([]byte, 1001))
	fake.Announce("fits", 0)
	fake.Announce("large", 0)
	dir := t.TempDir()
	if _, err := c.PullFiles(t.Context(), []string{"fits"}, dir); err != nil {
		t.Error(err)
	}
	_, err := c.PullFiles(t.Context(), []string{"large"}, dir)
	wantError(t, err, "download exceeds 1000 bytes")
	fake.Fail("dl", "endless")
	_, err = c.PullFiles(t.Context(), []string{"large"}, dir)
	wantError(t, err, "download exceeds 1000 bytes")
}

// TestDownloadConcurrently gives many downloads one name: none is overwritten.
func TestDownloadConcurrently(t *testing.T) {
	fake, c := newFake(t)
	ref := fake.AddToolFile("f.txt", []byte("x"))
	dir := t.TempDir()
	var mu sync.Mutex
	paths := make(map[string]bool)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			path, err := c.DownloadFile(t.Context(), "tool_file", ref, dir)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			paths[path] = true
		})
	}
	wg.Wait()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 16 || len(paths) != 16 {
		t.Errorf("%d files and %d paths of 16 downloads, %v", len(entries), len(paths), err)
	}
	for path := range paths {
		if !strings.HasPrefix(filepath.Base(path), "f") {
			t.Errorf("path %s", path)
		}
	}
}

// A directory that is itself a link is the user's own doing, and works.
func TestPullThroughLink(t *testing.T) {
	fake, c := newFake(t)
	fake.AddFile("f", []byte("text"))
	dir := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	files, err := c.PullFiles(t.Context(), nil, filepath.Join(dir, "link"))
	if err != nil || len(files) != 1 || files[0] != (stub.PulledFile{Name: "f", Path: filepath.Join(dir, "link", "f")}) {
		t.Errorf("PullFiles = %v, %v", files, err)
	}
}
