// Package fakestub is an Agent Stub for tests. It keeps files and a
// configuration in memory, refuses whatever the real service refuses, and fails
// in the ways that a test asks for.
//
// It lies under testdata so that it is no part of the product.
package fakestub

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
)

// Token is the token that a stub takes.
const Token = "test.token-of.the-fake.stub"

// Generation is the age of the server that a stub plays.
type Generation int

const (
	Newest  Generation = iota // signed URLs for the configuration, no drive
	Drive                     // 1.16: for_external, /config/…/pull, drive
	Unaware                   // like Drive, but answers 404 to what it does not know
)

// Stub is one fake. Its fields are guarded by mu.
type Stub struct {
	server *httptest.Server
	away   *httptest.Server // another host

	mu         sync.Mutex
	generation Generation
	failures   map[string]string // mode by route
	calls      []string          // "METHOD path?query" in order
	problems   []string          // what a client did wrong
	files      map[string]*file  // by record id
	transfers  map[string]*transfer
	skills     []*entry
	confFiles  []*entry
	drive      []*entry
	envText    string
	note       string
	relative   bool           // public links without an origin
	sizes      map[string]int // announced instead of the true ones, by name
	nextID     int

	release chan struct{} // closed to end hanging requests
}

// file is an uploaded file.
type file struct {
	id, name, mime string
	data           []byte
}

// entry is a named thing of the configuration or the drive.
type entry struct {
	name string
	data []byte
}

// transfer is what a signed URL stands for.
type transfer struct {
	route      string // "up" or "dl"
	name, mime string // of an upload
	data       []byte // of a download
}

// Start starts a stub on the loopback interface. The caller closes it.
func Start() *Stub {
	s := &Stub{
		failures:  make(map[string]string),
		files:     make(map[string]*file),
		transfers: make(map[string]*transfer),
		sizes:     make(map[string]int),
		release:   make(chan struct{}),
	}
	// The fields are set before anyone can ask.
	s.server = httptest.NewUnstartedServer(s.routes())
	s.away = httptest.NewUnstartedServer(http.HandlerFunc(s.stranger))
	s.away.Start()
	s.server.Start()
	return s
}

// Close ends all requests and stops the stub.
func (s *Stub) Close() {
	close(s.release)
	for _, server := range []*httptest.Server{s.server, s.away} {
		server.CloseClientConnections()
		server.Close()
	}
}

// stranger is a host that must not see a secret.
func (s *Stub) stranger(w http.ResponseWriter, r *http.Request) {
	for _, header := range []string{"Authorization", "Referer"} {
		if got := r.Header.Get(header); got != "" {
			s.problem(r, "another host got %s %q", header, got)
		}
	}
	s.mu.Lock()
	s.calls = append(s.calls, r.Method+" away")
	s.mu.Unlock()
	w.Write([]byte(`{"connection_id":"from-away","status":"connected"}`))
}

// URL is what the job's environment says: with or without the path is the same.
func (s *Stub) URL() string { return s.server.URL + "/agent-stub" }

// Addr is the host and port.
func (s *Stub) Addr() net.Addr { return s.server.Listener.Addr() }

// Environ is the environment of a job that belongs to the stub.
func (s *Stub) Environ() []string {
	return []string{"DIFY_AGENT_STUB_API_BASE_URL=" + s.URL(), "DIFY_AGENT_STUB_AUTH_JWE=" + Token}
}

// SetGeneration makes the stub older.
func (s *Stub) SetGeneration(g Generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation = g
}

// SetRelative makes public links lack an origin.
func (s *Stub) SetRelative(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.relative = on
}

// Fail makes a route fail from now on; the empty mode ends that. The routes
// are: connections upload-request download-request manifest push env note
// knowledge drive-manifest drive-commit old-pull up dl. For the modes see fail.
func (s *Stub) Fail(route, mode string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures[route] = mode
}

// AddSkill puts a skill archive into the configuration.
func (s *Stub) AddSkill(name string, archive []byte) { s.add(&s.skills, name, archive) }

// AddFile puts a file into the configuration.
func (s *Stub) AddFile(name string, data []byte) { s.add(&s.confFiles, name, data) }

// AddDrive puts a file into the drive.
func (s *Stub) AddDrive(key string, data []byte) { s.add(&s.drive, key, data) }

func (s *Stub) add(list *[]*entry, name string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*list = set(*list, name, data)
}

// set gives name its data, in place if the name is there.
func set(list []*entry, name string, data []byte) []*entry {
	for _, e := range list {
		if e.name == name {
			e.data = data
			return list
		}
	}
	return append(list, &entry{name: name, data: data})
}

// Announce makes the stub lie about the size of the file called name.
func (s *Stub) Announce(name string, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizes[name] = size
}

// sizeOf is the size that is announced for a file.
func (s *Stub) sizeOf(name string, data []byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if size, ok := s.sizes[name]; ok {
		return size
	}
	return len(data)
}

// AddToolFile stores a file as if it had been uploaded and returns its reference.
func (s *Stub) AddToolFile(name string, data []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.store(name, "application/octet-stream", data)
	return Reference(f.id)
}

// store keeps an uploaded file. The caller holds mu.
func (s *Stub) store(name, mime string, data []byte) *file {
	f := &file{id: s.newID(), name: name, mime: mime, data: data}
	s.files[f.id] = f
	return f
}

// newID returns a UUID. The caller holds mu.
func (s *Stub) newID() string {
	s.nextID++
	return fmt.Sprintf("00000000-0000-4000-8000-%012d", s.nextID)
}

// Note and Env return what was pushed.
func (s *Stub) Note() string { s.mu.Lock(); defer s.mu.Unlock(); return s.note }
func (s *Stub) Env() string  { s.mu.Lock(); defer s.mu.Unlock(); return s.envText }

// SetNote sets the note of the manifest.
func (s *Stub) SetNote(text string) { s.mu.Lock(); defer s.mu.Unlock(); s.note = text }

// Skill and File return the data of a thing of the configuration, or nil.
func (s *Stub) Skill(name string) []byte { return s.find(&s.skills, name) }
func (s *Stub) File(name string) []byte  { return s.find(&s.confFiles, name) }

// DriveFile returns the data of a file of the drive, or nil.
func (s *Stub) DriveFile(key string) []byte { return s.find(&s.drive, key) }

func (s *Stub) find(list *[]*entry, name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range *list {
		if e.name == name {
			return e.data
		}
	}
	return nil
}

// Uploads returns the name, type and data of every upload in order.
func (s *Stub) Uploads() (names, types []string, data [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := 1; id <= s.nextID; id++ {
		if f := s.files[fmt.Sprintf("00000000-0000-4000-8000-%012d", id)]; f != nil {
			names, types, data = append(names, f.name), append(types, f.mime), append(data, f.data)
		}
	}
	return names, types, data
}

// TakeCalls returns the requests since the last time, as "METHOD path?query".
func (s *Stub) TakeCalls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// TakeProblems returns what clients did wrong since the last time: requests that
// the real service would refuse, or that no released client sends.
func (s *Stub) TakeProblems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	problems := s.problems
	s.problems = nil
	return problems
}

func (s *Stub) problem(r *http.Request, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, r.Method+" "+r.URL.Path+": "+fmt.Sprintf(format, args...))
}
