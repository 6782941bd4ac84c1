package config

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRunnerFromEnv(t *testing.T) {
	for _, c := range []struct {
		grace, bytes string
		want         Runner
		bad          string // the variable that the error names
	}{
		{"", "", Runner{time.Second, 256 << 20}, ""},
		{"250ms", "0", Runner{250 * time.Millisecond, 0}, ""},
		{" 0s ", " 7\n", Runner{0, 7}, ""},
		{"10s", "9223372036854775807", Runner{10 * time.Second, math.MaxInt64}, ""},
		{"11s", "", Runner{}, EnvDrainGrace},
		{"-1s", "", Runner{}, EnvDrainGrace},
		{"1", "", Runner{}, EnvDrainGrace}, // without a unit
		{"soon", "", Runner{}, EnvDrainGrace},
		{"", "-1", Runner{}, EnvMaxOutputBytes},
		{"", "1e6", Runner{}, EnvMaxOutputBytes},
		{"", "64MiB", Runner{}, EnvMaxOutputBytes},
		{"", "9223372036854775808", Runner{}, EnvMaxOutputBytes},
	} {
		t.Setenv(EnvDrainGrace, c.grace)
		t.Setenv(EnvMaxOutputBytes, c.bytes)
		got, err := RunnerFromEnv()
		if c.bad != "" {
			if err == nil || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%q, %q: %v, want an error that names %s", c.grace, c.bytes, err, c.bad)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%q, %q: %+v, %v", c.grace, c.bytes, got, err)
		}
	}
}

func TestStateDir(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ state, xdg, home, want string }{
		{"/state", "/xdg", "/home/u", "/state"},
		{"rel", "/xdg", "/home/u", filepath.Join(wd, "rel")},
		{"", "/xdg", "/home/u", "/xdg/shellctl"},
		{"", "/xdg", "", "/xdg/shellctl"},
		{"", "rel", "/home/u", "/home/u/.local/share/shellctl"},
		{"", "", "/home/u/", "/home/u/.local/share/shellctl"},
		{"", "", "h", filepath.Join(wd, "h/.local/share/shellctl")},
		{"", "", "", ""},
		{"", "rel", "", ""},
	} {
		t.Setenv(EnvStateDir, c.state)
		t.Setenv(EnvXDGDataHome, c.xdg)
		t.Setenv("HOME", c.home)
		got, err := StateDir()
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

func TestSeconds(t *testing.T) {
	for s, want := range map[float64]time.Duration{
		0: 0, 0.25: 250 * time.Millisecond, 1e-9: time.Nanosecond, 1e-300: 0, 599.5: 599500 * time.Millisecond,
		600: 600 * time.Second, 601: 600 * time.Second, 1e300: 600 * time.Second, math.Inf(1): 600 * time.Second,
	} {
		if got := Seconds(s, MaxTimeout); got != want {
			t.Errorf("Seconds(%g) = %v, want %v", s, got, want)
		}
	}
}
