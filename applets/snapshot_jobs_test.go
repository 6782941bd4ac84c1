package applets_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"shellctl/pkg/client"
	"shellctl/pkg/snapshot"
)

// TestSnapshotBesideJobs: jobs run on while a save waits for its client, and
// the save has no part of the state directory, wherever it lies.
func TestSnapshotBesideJobs(t *testing.T) {
	home := tempDir(t, 0)
	state := filepath.Join(home, "deep", "state")
	s := startServer(t, serverOptions{home: home, args: []string{"--state-dir", state}})
	s.state = state
	large := make([]byte, 12<<20)
	rand.Read(large)
	if err := os.WriteFile(filepath.Join(home, "large"), large, 0o600); err != nil {
		t.Fatal(err)
	}
	writer := s.begin("while :; do echo x; echo x >> log; sleep 0.01; done", "stdio")
	s.until(writer.JobID, "x")

	req, err := http.NewRequest(http.MethodPost, s.url+"/v1/snapshot/save", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	resp, err := http.DefaultTransport.RoundTrip(req) // the save has begun, and nobody reads
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	s.wantError(http.MethodPost, "/v1/snapshot/save", "", http.StatusConflict, "snapshot_busy")
	for range 3 {
		wantExit(t, s.run("echo hello > written", "stdio"), "exited", 0)
		wantExit(t, s.run("tty; echo hello > written", "pty"), "exited", 0)
	}
	archive, err := io.ReadAll(resp.Body)
	if err != nil || resp.Trailer.Get("X-Snapshot-Status") != "ok" {
		t.Fatalf("save: %v, trailers %v", err, resp.Trailer)
	}
	to := tempDir(t, 0)
	if _, err := snapshot.Restore(context.Background(), bytes.NewReader(archive), to, snapshot.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(to, "deep", "state")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the state directory is in the archive: %v", err)
	}
	if got, err := os.ReadFile(filepath.Join(to, "large")); err != nil || !bytes.Equal(got, large) {
		t.Errorf("a file that nobody wrote to differs: %d bytes, %v", len(got), err)
	}
	if got, err := os.ReadFile(filepath.Join(to, "log")); err != nil || strings.Trim(string(got), "x\n") != "" {
		t.Errorf("a file that was appended to has other text: %v", err)
	}
}

// TestRestoreBesideJobs: a restore over the home of a server that runs jobs
// leaves the record and the jobs alone.
func TestRestoreBesideJobs(t *testing.T) {
	needTools(t, "tar", "zstd")
	s := startServer(t, serverOptions{})
	ended := s.run("echo ended", "stdio")
	runs := s.begin("echo up; read x; echo got $x > file; cat file", "pty")
	s.until(runs.JobID, "up")
	archive, _ := s.save()
	s.restore(archive)
	evil := sh(t, tempDir(t, 0), "mkdir -p .local/share/shellctl/jobs; echo x > .local/share/shellctl/shellctl.db; tar cf - .local | zstd -q")
	status, body := s.call(http.MethodPost, "/v1/snapshot/restore", evil)
	if want := `{"error":{"code":"archive_malformed","message":"archive malformed: entry in the state directory: \".local/share/shellctl\""}}` + "\n"; status != http.StatusBadRequest || body != want {
		t.Errorf("an archive with a state directory: %d %s", status, body)
	}
	if v, err := s.Status(context.Background(), ended.JobID); err != nil || v.Status != "exited" {
		t.Errorf("the job that had ended is %+v, %v", v, err)
	}
	res, err := s.Input(context.Background(), runs.JobID, "input\n", client.WaitRequest{Timeout: 60, IdleFlush: 30})
	if err != nil || !strings.Contains(res.Output, "got input") {
		t.Errorf("the running job answers %+v, %v", res, err)
	}
	// All is still there after a restart.
	s.stop(syscall.SIGTERM)
	s.start()
	if l, err := s.List(context.Background(), "", 0); err != nil || len(l.Jobs) != 2 {
		t.Errorf("after a restart the jobs are %+v, %v", l, err)
	}
}

// TestStopWhileRestoring: a server that stops amid a restore leaves no part of a
// file behind.
func TestStopWhileRestoring(t *testing.T) {
	s := startServer(t, serverOptions{})
	noise := make([]byte, 4<<20)
	rand.Read(noise)
	if err := os.WriteFile(filepath.Join(s.home, "noise"), noise, 0o600); err != nil {
		t.Fatal(err)
	}
	archive, _ := s.save()
	if err := os.WriteFile(filepath.Join(s.home, "noise"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	half, stall := io.Pipe()
	sent := make(chan struct{})
	go func() {
		_, _ = stall.Write(archive[:len(archive)-1000])
		close(sent)
	}()
	done := make(chan error, 1)
	go func() {
		_, err := s.RestoreHome(context.Background(), half, -1)
		done <- err
	}()
	<-sent
	s.stop(syscall.SIGTERM)
	stall.Close()
	if err := <-done; err == nil {
		t.Error("the restore reports success")
	}
	if s.exit != nil {
		t.Errorf("the server ended with %v\n%s", s.exit, s.logged())
	}
	if got := listTree(t, s.home); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"old"`) {
		t.Errorf("the home has\n%s", got)
	}
}
