// Package isolation confines the script of a job. It turns a [Policy] into
// Landlock rules and further layers, applies them to one thread, starts the
// script from that thread, and reports what the kernel really enforces.
//
// The rules:
//
//   - The server alone reads the policy, from its own environment. It reaches
//     the runner inside the job spec; of a job's environment only HOME matters.
//   - Only a thread is confined, never the runner: see [OnThread]. The thread
//     dies with its goroutine, the script inherits what it had.
//   - A job writes below its HOME and its cwd. The root, system directories and
//     the server's state never become writable by being named as one of them.
//   - Everything else is granted by name and as narrowly as tools allow. Other
//     jobs' files, terminals, processes and memory are not among it, with two
//     exceptions the report states: a shared /dev/shm, where who knows a name
//     can open it, and terminals where the policy says all.
//   - A path of a list that is missing is skipped: that can only take access
//     away. A HOME or cwd that can not be granted is an error, and the script
//     must not run.
//   - What the kernel does not know is left out right by right, and the report
//     says so. Require turns that into an error.
package isolation

// PTYs says which terminals a job may open besides its own.
type PTYs string

const (
	PTYsOwn PTYs = "own" // none, or any of a private devpts where mounting is allowed
	PTYsAll PTYs = "all" // every terminal of the user, for a sandbox with one tenant
)

// Policy is what the server's environment asks for. It is sent to the runner as
// JSON. The zero Policy confines nothing but the core size.
type Policy struct {
	Paths   bool `json:"paths"`   // Landlock on
	Require bool `json:"require"` // refuse jobs if the kernel lacks a layer

	RW      []string `json:"rw"`      // writable besides HOME and cwd
	RO      []string `json:"ro"`      // readable and executable
	Devices []string `json:"devices"` // readable and writable devices
	PTYs    PTYs     `json:"ptys"`

	// TCP ports a job may connect to or bind; nil is any, empty is none.
	ConnectPorts []uint16 `json:"connect_ports"`
	BindPorts    []uint16 `json:"bind_ports"`

	Limits   Limits `json:"limits"`
	Seccomp  bool   `json:"seccomp"`
	DropCaps bool   `json:"drop_caps"` // take away what lets root read around Landlock

	// MaxABI caps the Landlock ABI that is used, as an older kernel would; 0 is
	// no cap. It has no variable: tests set it.
	MaxABI int `json:"max_abi,omitempty"`
}

// Job is what the policy needs to know of one job. Empty fields grant nothing.
type Job struct {
	Home   string // of the job's environment, so chosen by the caller
	Cwd    string
	Script string // the script file itself, not its directory
	State  string // the server's state directory, to be kept from Cwd
	TTY    string // path of the job's own terminal, as seen after Enter
}
