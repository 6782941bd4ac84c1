package stub_test

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// again runs one test in a process of its own with more environment.
func again(t *testing.T, test string, env ...string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", test, err, out)
	}
}

// TestProxyVariables makes sure that the control plane, uploads and downloads
// all go through the proxy: in a sandbox there is no other way out.
func TestProxyVariables(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	proxy := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Method+" "+r.URL.String())
		switch r.URL.Path {
		case "/agent-stub/files/upload-request":
			w.Write([]byte(`{"upload_url":"http://up.invalid/u"}`))
		case "/agent-stub/files/download-request":
			w.Write([]byte(`{"filename":"name","download_url":"http://down.invalid/d"}`))
		}
	})
	again(t, "TestProxy", "STUB_TEST_PROXY=1", "http_proxy="+proxy.URL)
	want := []string{
		"POST http://stub.invalid/agent-stub/files/upload-request?expose_expiration=true",
		"POST http://up.invalid/u",
		"POST http://stub.invalid/agent-stub/files/download-request",
		"GET http://down.invalid/d",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("the proxy saw %q, want %q", seen, want)
	}
}

// TestCertificates is run by TestCertificateVariable.
func TestCertificates(t *testing.T) {
	url := os.Getenv("STUB_TEST_TLS")
	if url == "" {
		t.Skip("run by TestCertificateVariable")
	}
	_, err := newClient(url).Connect(t.Context(), nil)
	if trusted := os.Getenv("SSL_CERT_FILE") != "/dev/null"; trusted != (err == nil) {
		t.Errorf("trusted %v: %v", trusted, err)
	}
}

func TestCertificateVariable(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"connection_id":"1"}`))
	}))
	defer server.Close()
	path := write(t, filepath.Join(t.TempDir(), "ca.pem"), pemOf(server.Certificate()))
	again(t, "TestCertificates", "STUB_TEST_TLS="+server.URL, "SSL_CERT_FILE="+path)
	again(t, "TestCertificates", "STUB_TEST_TLS="+server.URL, "SSL_CERT_FILE=/dev/null", "SSL_CERT_DIR=/nonexistent")
}

func pemOf(cert *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
}
