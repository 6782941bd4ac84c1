package applets_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// drive is a person at a terminal: it starts a command there, waits for texts,
// types, changes the size of the window, and prints what was shown.
const drive = `import os, pty, sys, fcntl, termios, struct, signal, select, time
def size(fd, rows, cols): fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
pid, fd = pty.fork()
if pid == 0: os.execvp(sys.argv[1], sys.argv[1:])
size(fd, 33, 77)
shown = b""
def until(text):
  global shown
  end = time.monotonic() + 30
  while text not in shown:
    if not select.select([fd], [], [], max(0, end - time.monotonic()))[0]: sys.exit("never shown: %r in %r" % (text, shown))
    try: shown += os.read(fd, 4096)
    except OSError: break
for step in sys.stdin.read().split("\n"):
  what, _, arg = step.partition(" ")
  arg = arg.encode().decode("unicode_escape").encode("latin1")
  if what == "until": until(arg)
  if what == "type": os.write(fd, arg)
  if what == "size":
    size(fd, *map(int, arg.split())); os.kill(pid, signal.SIGWINCH)
until(b"\0")
print(shown.decode(errors="replace").replace("\r\n", "\n"), end="")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
`

// TestRunInTerminal: in a terminal, keys, Ctrl-C and the size of the window go to
// the job, and the terminal is left as it was.
func TestRunInTerminal(t *testing.T) {
	needTools(t, "python3")
	script := `trap 'echo INT; exit 3' INT
trap 'stty size' WINCH
stty size
read -p 'name? ' x; echo "got $x"
while :; do sleep 0.05; done`
	// The window has its size only after the fork, hence the wait for a key.
	cmd := exec.Command("python3", "-c", drive, "sh", "-c", `stty -g > a; read go; "$0" run "$1"; code=$?; stty -g > b; cmp a b && echo "same, code $code"`,
		program(t, "shellctl"), "#!/bin/bash\n"+script)
	cmd.Dir = tempDir(t, 0)
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "SHELLCTL_BASE_URL=")
	cmd.Stdin = strings.NewReader(`type \n
until 33 77
until name? 
type Bob\r
until got Bob
size 20 60
until 20 60
type \x03
until code 3`)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"33 77\n", "name? ", "Bob\n", "got Bob\n", "20 60\n", "INT\n", "same, code 3\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the terminal never showed %q:\n%s", want, out)
		}
	}
}

// TestPlainNewline: a line feed alone begins a new line on the terminal of a job,
// which spares the kernel work; the text is the same if a job sets it otherwise.
func TestPlainNewline(t *testing.T) {
	s := startServer(t, serverOptions{})
	const lines = `printf 'one\ntwo\r\n\tthree\n'; printf '10%%\r20%%\n'; printf last`
	const want = "one\ntwo\n\tthree\n20%\nlast"
	res := s.run(lines, "pty")
	if res.Output != want {
		t.Errorf("output %q, want %q", res.Output, want)
	}
	if res = s.run("stty sane; "+lines, "pty"); res.Output != want {
		t.Errorf("after stty sane: %q, want %q", res.Output, want)
	}
	if res = s.run("stty -a | grep -ow -e '-*onlcr' -e '-*onlret' -e '-*opost'", "pty"); res.Output != "-onlcr\nonlret\nopost\n" && res.Output != "opost\n-onlcr\nonlret\n" {
		t.Errorf("modes %q", res.Output)
	}
}
