// Package stub is the client of the Agent Stub: the HTTP service through which
// a job reaches the agent that started it. Small JSON calls go to the stub
// itself with a bearer token (the control plane); file bytes go to signed URLs
// that the stub hands out, without the token (the data plane).
//
// Two secrets pass through here, the token and the signed URLs. Neither appears
// in an error of this package. Names that come from the server or the command
// line never leave the directory they were meant for.
package stub

import (
	"net/http"
	"time"
)

// Limits of one exchange, as the servers' own clients have them.
const (
	controlTimeout   = 30 * time.Second
	knowledgeTimeout = 65 * time.Second
	downloadTimeout  = 120 * time.Second
	uploadTimeout    = 180 * time.Second

	maxAnswer       = 32 << 20 // a control plane answer, the manifest with its note at most
	maxUploadAnswer = 1 << 20
	maxFailure      = 1 << 20 // how much of a refusal is read for its message
	maxDownload     = 4 << 30 // a download whose size the server did not tell
	maxParallel     = 4       // pulls at once
)

// Client talks to one Agent Stub. It is safe for concurrent use.
type Client struct {
	base  string
	token string

	control  *http.Client // follows redirects; the token stays with the first host
	direct   *http.Client // control plane, redirects are answers
	uploads  *http.Client // data plane out, redirects are answers
	download *http.Client // data plane in, follows redirects

	limits limits
}

// limits are the limits that tests shorten.
type limits struct {
	control, knowledge, download, upload time.Duration
	unsized                              int64 // bytes of a download of unknown size
	unpack                               unpackLimits
}

// New returns a client for the stub that env names.
func New(env Environment) *Client {
	plain, late := newTransports()
	return &Client{
		base:     env.BaseURL,
		token:    env.Token,
		control:  &http.Client{Transport: plain, CheckRedirect: keepTokenHome},
		direct:   &http.Client{Transport: plain, CheckRedirect: noRedirect},
		uploads:  &http.Client{Transport: late, CheckRedirect: noRedirect},
		download: &http.Client{Transport: plain, CheckRedirect: keepTokenHome},
		limits: limits{
			control:   controlTimeout,
			knowledge: knowledgeTimeout,
			download:  downloadTimeout,
			upload:    uploadTimeout,
			unsized:   maxDownload,
			unpack:    defaultUnpackLimits(),
		},
	}
}
