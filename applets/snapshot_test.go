package applets_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"shellctl/pkg/client"
)

// sh runs a shell command in a directory and returns what it prints.
func sh(t testing.TB, dir, command string) string {
	t.Helper()
	cmd := exec.Command("sh", "-ec", command)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// listTree describes everything below a directory but the state.
func listTree(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, rerr := filepath.Rel(dir, path)
		if err = errors.Join(err, rerr); err != nil || rel == "." {
			return err
		}
		if strings.HasPrefix(rel, ".local") {
			return nil
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		switch {
		case d.Type() == fs.ModeSymlink:
			text, err = os.Readlink(path)
		case d.Type().IsRegular():
			var content []byte
			content, err = os.ReadFile(path)
			text = string(content)
		}
		fmt.Fprintf(&b, "%q %v %v %d %.40q\n", rel, st.Mode(), st.ModTime().UnixNano(), len(text), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// save saves a server's home to a buffer.
func (s *testServer) save(excludes ...string) ([]byte, client.Saved) {
	s.t.Helper()
	var b bytes.Buffer
	saved, err := s.SaveHome(context.Background(), &b, excludes)
	if err != nil {
		s.t.Fatalf("save: %v", err)
	}
	return b.Bytes(), saved
}

// restore lays an archive over a server's home.
func (s *testServer) restore(archive []byte) client.Restored {
	s.t.Helper()
	r, err := s.RestoreHome(context.Background(), bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		s.t.Fatalf("restore: %v", err)
	}
	return r
}

const mixedTree = `mkdir -p d/e empty closed; printf hello > d/f; ln d/f d/hard; ln -s f d/ln; ln -s /etc/passwd abs
	ln -s nowhere dangling; head -c 300000 /dev/zero > zeros; head -c 300000 /dev/urandom > noise; printf x > "$(printf 'new\nline \377')"
	printf '#!/bin/sh\n' > run; chmod 755 run; printf r > closed/r; chmod 444 closed/r; chmod 555 closed
	touch -d '2001-02-03 04:05:06.789' d/f; touch -d 2002-03-04 d empty`

// TestSnapshotRoundTrip: the home of one server becomes that of another.
func TestSnapshotRoundTrip(t *testing.T) {
	needRoot(t)
	for name, opt := range map[string]serverOptions{"root": {}, "plain user": {uid: plainUser}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := startServer(t, opt), startServer(t, opt)
			wantExit(t, a.run(mixedTree, "stdio"), "exited", 0)
			archive, saved := a.save()
			if saved.Skipped != 0 || saved.Changed != 0 {
				t.Errorf("saved %+v", saved)
			}
			want := listTree(t, a.home)
			for range 2 { // also over what is there
				restored := b.restore(archive)
				if restored.Entries < 14 || restored.Bytes < 600_000 {
					t.Errorf("restored %+v", restored)
				}
				if got := listTree(t, b.home); got != want {
					t.Errorf("restored\n%s\nwant\n%s", got, want)
				}
			}
			wantExit(t, b.run("./run && test d/f -ef d/hard && echo more >> d/hard", "stdio"), "exited", 0)
		})
	}
}

// TestRestoreTar: an archive of GNU tar and zstd restores through the API, and
// both read what a save sends.
func TestRestoreTar(t *testing.T) {
	needRoot(t)
	needTools(t, "tar", "zstd")
	s := startServer(t, serverOptions{})
	from, to := tempDir(t, 0), tempDir(t, 0)
	sh(t, from, mixedTree)
	archive := sh(t, from, "tar --format=pax -cf - . | zstd -q -T0")
	s.restore([]byte(archive))
	want := listTree(t, from)
	if got := listTree(t, s.home); got != want {
		t.Errorf("restored\n%s\nwant\n%s", got, want)
	}
	back, _ := s.save()
	file := filepath.Join(tempDir(t, 0), "a.tar.zst")
	if err := os.WriteFile(file, back, 0o600); err != nil {
		t.Fatal(err)
	}
	sh(t, to, "zstd -dc "+file+" | tar xpf -")
	if got := listTree(t, to); got != want {
		t.Errorf("tar made\n%s\nwant\n%s", got, want)
	}
}

// TestSnapshotHomeGone: HOME is looked for at each request.
func TestSnapshotHomeGone(t *testing.T) {
	home := filepath.Join(tempDir(t, 0), "home")
	s := startServer(t, serverOptions{home: makeDir(t, home), args: []string{"--state-dir", tempDir(t, 0)}})
	s.save()
	if err := os.Remove(home); err != nil {
		t.Fatal(err)
	}
	want := `{"error":{"code":"home_unavailable","message":"stat ` + home + `: no such file or directory"}}` + "\n"
	for _, path := range []string{"/v1/snapshot/save", "/v1/snapshot/restore"} {
		if status, body := s.call(http.MethodPost, path, ""); status != http.StatusInternalServerError || body != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	makeDir(t, home)
	s.save()
}

func makeDir(t *testing.T, dir string) string {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSnapshotSettings: a bad value stops the start and is named.
func TestSnapshotSettings(t *testing.T) {
	for name, value := range map[string]string{
		"SHELLCTL_SNAPSHOT_TIMEOUT": "45", "SHELLCTL_SNAPSHOT_IDLE_TIMEOUT": "x",
		"SHELLCTL_RESTORE_MAX_BYTES": "1k", "SHELLCTL_RESTORE_MAX_ENTRIES": "-1",
	} {
		cmd := exec.Command(program(t, "shellctl"), "serve", "--listen", "127.0.0.1:0")
		cmd.Env = []string{"HOME=" + tempDir(t, 0), "PATH=" + os.Getenv("PATH"), name + "=" + value}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.HasPrefix(string(out), "shellctl: read "+name+": ") {
			t.Errorf("%s=%s: %v, %s", name, value, err, out)
		}
	}
	// Good ones hold: the limits of a restore are this server's.
	s := startServer(t, serverOptions{env: []string{"SHELLCTL_SNAPSHOT_TIMEOUT= 1m ", "SHELLCTL_RESTORE_MAX_BYTES=3"}})
	other := startServer(t, serverOptions{})
	wantExit(t, other.run("echo long > f", "stdio"), "exited", 0)
	archive, _ := other.save()
	s.wantError(http.MethodPost, "/v1/snapshot/restore", string(archive), http.StatusInternalServerError, "restore_failed")
}
