package stub_test

import (
	"slices"
	"strings"
	"testing"

	"shellctl/pkg/stub"
)

func TestLocalName(t *testing.T) {
	for name, want := range map[string]string{
		"a.txt":           "a.txt",
		"../../a.txt":     "a.txt",
		"/etc/passwd":     "passwd",
		"a/":              "a",
		"/":               "downloaded",
		"":                "downloaded",
		".":               "downloaded",
		"..":              "downloaded",
		"x/..":            "downloaded",
		`..\a`:            `..\a`,
		"a\x00b\nc\x7f\t": "a_b_c__",
		".hidden":         ".hidden",
	} {
		if got := stub.LocalName(name); got != want {
			t.Errorf("LocalName(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestFreeNames(t *testing.T) {
	for name, want := range map[string][]string{
		"a.tar.gz": {"a.tar.gz", "a.tar (1).gz", "a.tar (2).gz"},
		"plain":    {"plain", "plain (1)", "plain (2)"},
	} {
		if got := stub.FreeNames(name, 3); !slices.Equal(got, want) {
			t.Errorf("FreeNames(%q) = %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{strings.Repeat("ü", 200) + ".txt", strings.Repeat("n", 300), "a." + strings.Repeat("n", 300)} {
		for _, got := range stub.FreeNames(name, 12) {
			if len(got) > 255 || !strings.HasPrefix(name, got[:8]) || !strings.Contains(got, "n") && !strings.HasSuffix(got, ".txt") {
				t.Errorf("FreeNames(%.9q…) yields %q", name, got)
			}
		}
	}
}
