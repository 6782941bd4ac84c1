package stub

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// The variables a job finds its stub by.
const (
	EnvBaseURL   = "DIFY_AGENT_STUB_API_BASE_URL"
	EnvToken     = "DIFY_AGENT_STUB_AUTH_JWE"
	EnvDriveBase = "DIFY_AGENT_STUB_DRIVE_BASE"
)

const (
	basePath         = "/agent-stub"
	defaultDriveBase = "/mnt/drive"
)

// Environment is what a job must know to reach its stub.
type Environment struct {
	BaseURL string // scheme://host[:port]/agent-stub
	Token   string // opaque: it may be a placeholder that a proxy replaces
}

// ReadEnvironment reads the environment through getenv.
func ReadEnvironment(getenv func(string) string) (Environment, error) {
	raw := strings.TrimSpace(getenv(EnvBaseURL))
	token := strings.TrimSpace(getenv(EnvToken))
	var missing []string
	if raw == "" {
		missing = append(missing, EnvBaseURL)
	}
	if token == "" {
		missing = append(missing, EnvToken)
	}
	if len(missing) > 0 {
		return Environment{}, fmt.Errorf("missing required Agent Stub environment variables: %s", strings.Join(missing, ", "))
	}
	base, err := parseBaseURL(raw)
	if err != nil {
		return Environment{}, fmt.Errorf("invalid %s: %w", EnvBaseURL, err)
	}
	return Environment{BaseURL: base, Token: token}, nil
}

// ReadDriveBase returns the directory that drives are pulled into.
func ReadDriveBase(getenv func(string) string) string {
	if dir := strings.TrimSpace(getenv(EnvDriveBase)); dir != "" {
		return dir
	}
	return defaultDriveBase
}

// parseBaseURL brings the address of a stub into its normal form.
func parseBaseURL(raw string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		// The text of a *url.Error holds the URL, and that may hold a password.
		if bad := (*url.Error)(nil); errors.As(err, &bad) {
			err = bad.Err
		}
		return "", fmt.Errorf("parse URL: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("URL must use http or https")
	case u.Hostname() == "":
		return "", errors.New("URL must include a host")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", errors.New("URL must not have a query string or fragment")
	case u.User != nil:
		return "", errors.New("URL must not have user information")
	}
	if path := strings.TrimRight(u.Path, "/"); path != "" && path != basePath {
		return "", fmt.Errorf("URL path must be empty or %s", basePath)
	}
	return u.Scheme + "://" + strings.TrimSuffix(u.Host, ":") + basePath, nil
}
