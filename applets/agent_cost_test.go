package applets_test

import (
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// buildAgent builds the product without the race detector and returns its path
// under the name dify-agent.
func buildAgent(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the product")
	}
	path := filepath.Join(t.TempDir(), "dify-agent")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// TestAgentStartUp bounds what one of the many calls of an agent's turn costs.
// The quickest of several counts: a busy machine makes the others slower.
func TestAgentStartUp(t *testing.T) {
	agent := buildAgent(t)
	best := time.Hour
	for range 20 {
		cmd := exec.Command(agent, "--help")
		start := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("--help: %v\n%s", err, out)
		}
		best = min(best, time.Since(start))
	}
	peak := peakMemory(t, exec.Command(agent, "--help"))
	t.Logf("--help: %v, %d KiB", best, peak)
	if best > 10*time.Millisecond {
		t.Errorf("--help took %v, want 10ms at most", best)
	}
	if peak > 12<<10 {
		t.Errorf("--help took %d KiB, want 12 MiB at most", peak)
	}
}

// peakMemory runs a command and returns its peak of resident memory in KiB. It
// is read when the process is about to end: what the kernel reports to a parent
// begins with the parent's own size.
func peakMemory(t *testing.T, cmd *exec.Cmd) int64 {
	t.Helper()
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := syscall.PtraceSetOptions(pid, syscall.PTRACE_O_TRACEEXIT); err != nil {
		t.Fatal(err)
	}
	for sig := 0; ; {
		if err := syscall.PtraceCont(pid, sig); err != nil {
			t.Fatal(err)
		}
		if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil {
			t.Fatal(err)
		}
		if ws.TrapCause() == syscall.PTRACE_EVENT_EXIT {
			break
		}
		sig = int(ws.StopSignal())
	}
	peak := vmHWM(t, pid)
	if err := syscall.PtraceDetach(pid); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return peak
}

// vmHWM reads the peak of a process's resident memory in KiB.
func vmHWM(t testing.TB, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Error(err)
	}
	var peak int64
	_, line, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(line, &peak); err != nil {
		t.Error(err)
	}
	return peak
}

// TestAgentMemory sends a large file each way and packs a large skill: the
// process must not grow with the file.
func TestAgentMemory(t *testing.T) {
	agent := buildAgent(t)
	stub := &largeStub{t: t, pid: make(chan int, 1), peak: make(chan int64, 1)}
	server := httptest.NewServer(stub)
	defer server.Close()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "skill"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int64{"sparse": large, "skill/SKILL.md": 1, "skill/sparse": large / 4} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"file", "upload", "--no-download-link", "sparse"},
		{"file", "upload", "--no-download-link", "/dev/fd/0"},
		{"config", "skills", "push", "skill"},
		{"file", "download", "tool_file", "r", "--to", "in"},
		{"config", "files", "pull", "f", "--to", "in"},
	} {
		cmd := exec.Command(agent, args...)
		cmd.Dir = dir
		cmd.Stdin = io.LimitReader(endless{}, large)
		cmd.Env = append(os.Environ(), "DIFY_AGENT_STUB_API_BASE_URL="+server.URL, "DIFY_AGENT_STUB_AUTH_JWE=token")
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stub.pid <- cmd.Process.Pid
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		peak := <-stub.peak
		t.Logf("%s: %d KiB", strings.Join(args, " "), peak)
		if peak > 20<<10 {
			t.Errorf("%s: %d KiB", strings.Join(args, " "), peak)
		}
	}
}

// largeStub plays a stub and its file server without keeping anything. When
// the bytes have gone over it looks at the peak memory of its client.
type largeStub struct {
	t    *testing.T
	pid  chan int
	peak chan int64
}

func (s *largeStub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/agent-stub/files/upload-request":
		fmt.Fprintf(w, `{"upload_url":"http://%s/up"}`, r.Host)
	case "/agent-stub/files/download-request":
		fmt.Fprintf(w, `{"filename":"f","size":%d,"download_url":"http://%s/dl"}`, large, r.Host)
	case "/agent-stub/config/push":
		io.WriteString(w, "{}")
	case "/dl":
		io.CopyN(w, endless{}, large-1)
		s.measure()
		w.Write([]byte{0})
	case "/up":
		_, err := drainForm(r)
		s.measure()
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(map[string]string{"id": "1", "reference": "dify-file-ref:eyJyZWNvcmRfaWQiOiIxIn0="})
	}
}

func (s *largeStub) measure() { s.peak <- vmHWM(s.t, <-s.pid) }

func drainForm(r *http.Request) (int64, error) {
	form, err := r.MultipartReader()
	if err != nil {
		return 0, err
	}
	var part *multipart.Part
	if part, err = form.NextPart(); err != nil {
		return 0, err
	}
	return io.Copy(io.Discard, part)
}

// endless reads as zeros without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }
