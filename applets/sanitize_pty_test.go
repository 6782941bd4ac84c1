package applets_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sanitizer is a process of the applet.
func sanitizer(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Args[0] = "shellctl-sanitize-pty"
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	return cmd
}

// exitCode runs cmd and returns its exit code.
func exitCode(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

func TestSanitizePTY(t *testing.T) {
	file := filepath.Join(t.TempDir(), "raw")
	if err := os.WriteFile(file, []byte("\x1b[1mone\x1b[m\r\r\n10%\r20%"), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()

	cmd := sanitizer()
	cmd.Stdin = in
	out, err := cmd.Output()
	if want := "one\n20%"; err != nil || string(out) != want {
		t.Errorf("output %q, %v, want %q", out, err, want)
	}
}

func TestSanitizePTYFlags(t *testing.T) {
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{"--help"}, 0, "Usage: shellctl-sanitize-pty [--ready-file PATH]\n", ""},
		{[]string{"-h"}, 0, "Usage: shellctl-sanitize-pty", ""},
		{[]string{"--nonsense"}, 2, "", "shellctl: sanitize-pty: "},
		{[]string{"extra"}, 2, "", `shellctl: sanitize-pty: unexpected argument "extra"`},
		{[]string{"--ready-file", "/nowhere/ready"}, 1, "", "shellctl: sanitize-pty: create ready file: open /nowhere/ready: "},
	} {
		var stdout, stderr bytes.Buffer
		cmd := sanitizer(c.args...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if code := exitCode(t, cmd); code != c.code {
			t.Errorf("%q: exit code %d, want %d", c.args, code, c.code)
		}
		if !strings.HasPrefix(stdout.String(), c.stdout) || !strings.HasPrefix(stderr.String(), c.stderr) {
			t.Errorf("%q: stdout %q, stderr %q, want %q and %q", c.args, &stdout, &stderr, c.stdout, c.stderr)
		}
	}
}

func TestSanitizePTYHelpNamesTheApplet(t *testing.T) {
	cmd := sanitizer("sanitize-pty", "--help")
	cmd.Args[0] = "shellctl"
	out, err := cmd.Output()
	if want := "Usage: shellctl sanitize-pty "; err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("help %q, %v, want %q", out, err, want)
	}
}

// The ready file is there before input is, in each spelling of the flag.
func TestSanitizePTYReadyFile(t *testing.T) {
	for _, flag := range []string{"--ready-file PATH", "--ready-file=PATH", "-ready-file PATH", "-ready-file=PATH"} {
		t.Run(flag, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ready")
			cmd := sanitizer(strings.Fields(strings.Replace(flag, "PATH", path, 1))...)
			in, out := start(t, cmd)
			waitFor(t, "the ready file", func() bool {
				info, err := os.Stat(path)
				return err == nil && info.Size() == 0
			})
			if _, err := io.WriteString(in, "x\n"); err != nil {
				t.Fatal(err)
			}
			in.Close()
			if got, err := io.ReadAll(out); err != nil || string(got) != "x\n" {
				t.Errorf("output %q, %v", got, err)
			}
		})
	}
}

// start starts cmd between two pipes. At the end of the test it must have exited
// with 0 and said nothing on stderr.
func start(t *testing.T, cmd *exec.Cmd) (in io.WriteCloser, out io.Reader) {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	t.Cleanup(func() {
		in.Close()
		read.Close()
		if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
			t.Errorf("end of the process: %v, stderr %q", err, &stderr)
		}
	})
	return in, read
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// A prompt appears while the program waits for the answer, and only once.
func TestSanitizePTYPrompt(t *testing.T) {
	in, out := start(t, sanitizer())
	prompt := "Continue? [y/N] "
	asked := time.Now()
	if _, err := io.WriteString(in, "\x1b[1m"+prompt); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(prompt))
	if _, err := io.ReadFull(out, got); err != nil || string(got) != prompt {
		t.Fatalf("read %q, %v, want the prompt", got, err)
	}
	if d := time.Since(asked); d < 150*time.Millisecond {
		t.Errorf("prompt shown after %v, before it was silent for long", d)
	}
	if _, err := io.WriteString(in, "y\r\ngot y\r\n"); err != nil {
		t.Fatal(err)
	}
	in.Close()
	if rest, err := io.ReadAll(out); err != nil || string(rest) != "y\ngot y\n" {
		t.Errorf("behind the prompt %q, %v", rest, err)
	}
}

// A prompt appears also while input without text never pauses.
func TestSanitizePTYPromptInFlood(t *testing.T) {
	in, out := start(t, sanitizer())
	shown, flooded := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(flooded)
		defer in.Close()
		for raw := "Password: "; ; raw = strings.Repeat("\x1b[m", 1000) {
			if _, err := io.WriteString(in, raw); err != nil {
				return
			}
			select {
			case <-shown:
				return
			default:
			}
		}
	}()
	got := make([]byte, len("Password: "))
	if _, err := io.ReadFull(out, got); err != nil || string(got) != "Password: " {
		t.Errorf("read %q, %v, want the prompt", got, err)
	}
	close(shown)
	<-flooded
}

// A reader that goes away ends the applet without a word; start checks that.
func TestSanitizePTYBrokenPipe(t *testing.T) {
	in, out := start(t, sanitizer())
	out.(*os.File).Close()
	for {
		if _, err := io.WriteString(in, "text\n"); err != nil {
			return
		}
	}
}

// A failing write is told, and a failing read too, behind the text before it.
func TestSanitizePTYErrors(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, c := range []struct {
		in   io.Reader
		out  io.Writer
		want string
	}{
		{strings.NewReader("text\n"), full, "no space left on device\n"},
		{dir, io.Discard, "is a directory\n"},
	} {
		var stderr bytes.Buffer
		cmd := sanitizer()
		cmd.Stdin, cmd.Stdout, cmd.Stderr = c.in, c.out, &stderr
		if code := exitCode(t, cmd); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		got := stderr.String()
		if !strings.HasPrefix(got, "shellctl: sanitize-pty: ") || !strings.HasSuffix(got, c.want) || strings.Count(got, "\n") != 1 {
			t.Errorf("stderr %q, want one line that ends in %q", got, c.want)
		}
	}
}

// Memory stays flat: with and without lines, and for a bar that never ends.
func TestSanitizePTYMemory(t *testing.T) {
	for piece, size := range map[string]int{
		"a line of text\r\n": 8 << 20,
		"no newline ":        8 << 20,
		"\rframe 12345":      4 << 20,
		"\xff\x00":           1 << 20,
	} {
		block := []byte(strings.Repeat(piece, 1<<16/len(piece)))
		cmd := sanitizer()
		in, out := start(t, cmd)
		go io.Copy(io.Discard, out)
		var half int64
		for n := 0; n < size; n += len(block) {
			if _, err := in.Write(block); err != nil {
				t.Fatal(err)
			}
			if half == 0 && n > size/8 {
				half = vmHWM(t, cmd.Process.Pid)
			}
		}
		if end := vmHWM(t, cmd.Process.Pid); end > half+4<<10 {
			t.Errorf("%q: %d KiB resident after an eighth, %d at the end", piece, half, end)
		}
		in.Close()
	}
}
