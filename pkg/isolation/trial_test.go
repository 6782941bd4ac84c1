package isolation

import (
	"os"
	"strings"
	"testing"
)

// TestTry tries what holds, and then a report that claims more than there is.
func TestTry(t *testing.T) {
	p := defaults(t)
	r := p.Probe()
	broken, err := p.Try(r, t.TempDir())
	if err != nil || len(broken) > 0 {
		t.Fatalf("Try() = %v, %v, want nothing broken", broken, err)
	}
	old := p
	old.MaxABI, old.Seccomp = 1, false
	broken, err = old.Try(r, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range trials() {
		if _, found := broken[tr.layer]; found != (tr.layer != "paths" && r.Layer(tr.layer).State == Enforced) {
			t.Errorf("on ABI 1 without seccomp, %s is found broken: %v (%v)", tr.layer, found, broken[tr.layer])
		}
	}
	if err := broken["truncate"]; err == nil || !strings.Contains(err.Error(), "a job gets through, not permission denied") {
		t.Errorf("truncate: %v", err)
	}
}

func TestTryRefused(t *testing.T) {
	p := defaults(t)
	p.RO = []string{"/etc/passwd"}
	if _, err := p.Try(p.Probe(), t.TempDir()); err == nil {
		t.Error("rules that can not be made were tried")
	}
	if _, err := defaults(t).Try(Report{}, os.DevNull); err == nil {
		t.Error("tried on no ground")
	}
}
