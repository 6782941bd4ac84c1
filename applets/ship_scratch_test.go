package applets_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// envTestRoot names the unpacked root of a built image. Without it the test lays
// one out as the Dockerfile does.
const envTestRoot = "SHELLCTL_TEST_ROOT"

// containerSetup is what a container runtime adds to the root of an image.
const containerSetup = `mkdir -p /mnt/proc /mnt/dev /mnt/tmp
mount --bind /tmp /mnt/tmp
mount --bind /home/dify /mnt/home/dify
mount -t proc proc /mnt/proc
mount --rbind /dev /mnt/dev
ENTER="chroot --userspec=1000:1000 /mnt"`

// TestScratchRoot boots the scratch image's root with the server as its first
// process: first as it is, then with a busybox laid into it.
func TestScratchRoot(t *testing.T) {
	needRoot(t)
	needTools(t, "unshare", "busybox")
	root := scratchRoot(t)
	env := append([]string{"ROOT=" + root}, withToken...)
	serve := []string{"shellctl", "serve", "--listen", "0.0.0.0:5004"}

	b := newBox(t, containerSetup, env, serve...)
	b.healthy()
	out, err := b.command("shellctl", "run", "echo hello").CombinedOutput()
	var exit *exec.ExitError
	if !asError(err, &exit) || exit.ExitCode() != 127 || !strings.Contains(string(out), "needs a shell") {
		t.Errorf("a job without a shell: %v %q, want 127 and what is missing", err, out)
	}
	if err := syscall.Kill(b.first(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := b.wait(stopLimit); err != nil {
		t.Errorf("the server ended with %v, want 0", err)
	}

	layBusybox(t, root)
	b = newBox(t, containerSetup, env, serve...)
	b.healthy()
	testBothModes(t, b)
	testOrphans(t, b)
	testStop(t, b)
}

// scratchRoot returns the root of the image.
func scratchRoot(t *testing.T) string {
	t.Helper()
	if root := os.Getenv(envTestRoot); root != "" {
		return root
	}
	root := tempDir(t, 0)
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(root, "usr/local/bin")
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(bin, "shellctl"), "shellctl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if out, err := exec.Command(filepath.Join(bin, "shellctl"), "install", "--symlink", "--into", bin).CombinedOutput(); err != nil {
		t.Fatalf("install: %v\n%s", err, out)
	}
	if err := os.MkdirAll(filepath.Join(root, "home/dify"), 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

// layBusybox puts a shell with what the tests use into a root.
func layBusybox(t *testing.T, root string) {
	t.Helper()
	b, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "bin")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "busybox"), b, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sh", "env", "grep", "sleep", "setsid", "mkfifo"} {
		if err := os.Symlink("busybox", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}
