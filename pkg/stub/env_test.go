package stub_test

import (
	"strings"
	"testing"

	"shellctl/pkg/stub"
)

func getenv(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func TestBaseURL(t *testing.T) {
	for raw, want := range map[string]string{
		"http://h":                    "http://h/agent-stub",
		"http://h/":                   "http://h/agent-stub",
		" https://h:8443/agent-stub ": "https://h:8443/agent-stub",
		"http://h/agent-stub///":      "http://h/agent-stub",
		"HTTP://h:":                   "http://h/agent-stub",
		"http://[::1]:80":             "http://[::1]:80/agent-stub",
	} {
		env, err := stub.ReadEnvironment(getenv(map[string]string{stub.EnvBaseURL: raw, stub.EnvToken: " t "}))
		if err != nil || env.BaseURL != want || env.Token != "t" {
			t.Errorf("ReadEnvironment(%q) = %+v, %v, want %s", raw, env, err, want)
		}
	}
}

func TestBaseURLInvalid(t *testing.T) {
	for raw, want := range map[string]string{
		"grpc://h:1":               "must use http or https",
		"ftp://h":                  "must use http or https",
		"h/agent-stub":             "must use http or https",
		"http://":                  "must include a host",
		"http://:80":               "must include a host",
		"http://h?":                "query string or fragment",
		"http://h/?a=b":            "query string or fragment",
		"http://h/#a":              "query string or fragment",
		"http://u:password@h":      "user information",
		"http://h/other":           "path must be",
		"http://h/agent-stub/more": "path must be",
		"http://u:password@h:bad":  "parse URL",
	} {
		_, err := stub.ReadEnvironment(getenv(map[string]string{stub.EnvBaseURL: raw, stub.EnvToken: "t"}))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "invalid "+stub.EnvBaseURL+": ") {
			t.Errorf("ReadEnvironment(%q) = %v, want %q", raw, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "password") {
			t.Errorf("ReadEnvironment(%q) = %v: shows the password", raw, err)
		}
	}
}

func TestEnvironmentMissing(t *testing.T) {
	_, err := stub.ReadEnvironment(getenv(map[string]string{stub.EnvToken: " "}))
	const want = "missing required Agent Stub environment variables: DIFY_AGENT_STUB_API_BASE_URL, DIFY_AGENT_STUB_AUTH_JWE"
	if err == nil || err.Error() != want {
		t.Errorf("ReadEnvironment() = %v, want %s", err, want)
	}
}

func TestDriveBase(t *testing.T) {
	if got := stub.ReadDriveBase(getenv(nil)); got != "/mnt/drive" {
		t.Errorf("ReadDriveBase() = %q", got)
	}
	if got := stub.ReadDriveBase(getenv(map[string]string{stub.EnvDriveBase: " /d "})); got != "/d" {
		t.Errorf("ReadDriveBase() = %q", got)
	}
}
