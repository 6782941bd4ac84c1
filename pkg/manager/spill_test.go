package manager

import (
	"log/slog"
	"os"
	"testing"

	"shellctl/pkg/config"
	"shellctl/pkg/isolation"
)

// TestSpillDuringRecovery: a script that arrives while the server starts is not
// taken for one that an earlier server left.
func TestSpillDuringRecovery(t *testing.T) {
	m, err := New(config.Server{StateDir: t.TempDir()}, isolation.Policy{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	spilled := make(chan *os.File)
	go func() {
		f, err := m.Spill()
		if err != nil {
			t.Error(err)
		}
		spilled <- f
	}()
	select {
	case <-spilled:
		t.Fatal("a script was taken before recovery")
	default:
	}
	if err := m.Open(); err != nil {
		t.Fatal(err)
	}
	f := <-spilled
	defer f.Close()
	m.clearLeftover(nil)
	if _, err := os.Stat(f.Name()); err != nil {
		t.Error(err)
	}
	// It never gets another name, which a copy of the home would miss.
	id, err := m.place(Script{File: f})
	if want := m.scriptPath(id); err != nil || f.Name() != want {
		t.Errorf("the script came to %s, want %s (%v)", f.Name(), want, err)
	}
}
