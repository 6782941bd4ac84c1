package fakestub

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// fail answers in a way that goes wrong, and reports whether it did. Modes:
//
//	NNN             that status with a string detail
//	NNN-text        that status with a text that is no JSON
//	NNN-list        that status with a list of validation errors
//	NNN-object      that status with code and message
//	NNN-code        that status with a code and no message
//	NNN-echo        that status with a page that repeats the request's URL and token
//	NNN-early       that status before the body is read, then close
//	NNN-html        that status with an error page
//	expired         401 with the code of an expired token
//	hang            no answer
//	cut             an answer that ends before its announced length
//	endless         an answer without end
//	slow            an answer of one byte, and then nothing
//	redirect        307 to another route of this host
//	redirect-away   307 to another host
//	no-json, empty, missing, null   200 with a wrong body
//	body:TEXT       200 with TEXT
func (s *Stub) fail(w http.ResponseWriter, r *http.Request, mode string) bool {
	status := 0
	kind := mode
	if len(mode) >= 3 && strings.Trim(mode[:3], "0123456789") == "" {
		fmt.Sscanf(mode[:3], "%d", &status)
		kind = strings.TrimPrefix(mode[3:], "-")
		if kind == "" {
			kind = "string"
		}
	}
	switch kind {
	case "":
		return false
	case "early":
		s.refuseEarly(w, status)
		return true
	case "hang":
		<-s.hold(r)
		return true
	}
	io.Copy(io.Discard, r.Body)
	switch {
	case status != 0:
		s.refuse(w, r, status, kind)
	case kind == "expired":
		refuse(w, http.StatusUnauthorized, map[string]any{
			"code": "agent_stub_authorization_expired", "message": "token is too old",
		})
	case strings.HasPrefix(kind, "body:"):
		io.WriteString(w, strings.TrimPrefix(kind, "body:"))
	default:
		s.misbehave(w, r, kind)
	}
	return true
}

func (s *Stub) refuse(w http.ResponseWriter, r *http.Request, status int, kind string) {
	switch kind {
	case "string":
		refuse(w, status, "the stub says no")
	case "list":
		refuse(w, status, []any{map[string]any{"type": "extra_forbidden", "loc": []string{"body", "x"}, "msg": "not permitted"}})
	case "object":
		refuse(w, status, map[string]any{"code": "some_code", "message": "a structured no"})
	case "code":
		refuse(w, status, map[string]any{"code": "some_code"})
	case "echo":
		w.WriteHeader(status)
		fmt.Fprintf(w, "cannot forward http://%s%s with %s", r.Host, r.URL.RequestURI(), r.Header.Get("Authorization"))
	case "html":
		w.WriteHeader(status)
		io.WriteString(w, "<html>bad gateway</html>")
	default:
		w.WriteHeader(status)
		io.WriteString(w, "plain words")
	}
}

func (s *Stub) misbehave(w http.ResponseWriter, r *http.Request, kind string) {
	switch kind {
	case "cut":
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, `{"half`)
	case "endless":
		for err := error(nil); err == nil; {
			_, err = w.Write(bytes.Repeat([]byte{' '}, 64<<10))
		}
	case "slow":
		w.Write([]byte{' '})
		http.NewResponseController(w).Flush()
		<-s.hold(r)
	case "redirect":
		http.Redirect(w, r, "/agent-stub/moved?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
	case "redirect-away":
		http.Redirect(w, r, s.away.URL+"/away", http.StatusTemporaryRedirect)
	case "no-json":
		io.WriteString(w, "this is not JSON")
	case "empty":
		io.WriteString(w, `{"connection_id":"","upload_url":"","download_url":"","filename":"","reference":"","id":""}`)
	case "missing":
		io.WriteString(w, `{}`)
	case "null":
		io.WriteString(w, `null`)
	default:
		panic("fakestub: unknown mode " + kind)
	}
}

// refuseEarly answers while the client is still sending, and hangs up.
func (s *Stub) refuseEarly(w http.ResponseWriter, status int) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close() // with unread bytes, so that the client's writes fail
	body := `{"detail":"not a byte more"}`
	fmt.Fprintf(conn, "HTTP/1.1 %d Early\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

// hold returns a channel that is closed when the request or the stub ends.
func (s *Stub) hold(r *http.Request) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-r.Context().Done():
		case <-s.release:
		}
	}()
	return done
}
