package event

// A ProcessInfo describes a process that runs a Go program. Empty fields are unknown.
type ProcessInfo struct {
	PID, PPID int    // the process and its parent
	User      string // name of the user that the process runs as; the user ID if it has no name
	Exe       string // path of the executable, in the mount namespace of the process
	Deleted   bool   // the executable has been removed or replaced since the process started

	GoVersion     string // the Go release that built the program, such as "go1.22.12"
	Module        string // path of the main module, or of the main package if the module is unknown
	ModuleVersion string // version of the main module, such as "v1.2.3" or "(devel)"
	Arch          string // GOARCH of the program: "amd64" or "arm64"
	Linkage       string // "static", "dynamic" (with shared libraries) or "pie" (position-independent)
	Symbols       string // "full" (symbol table and DWARF), "nodwarf" (symbol table only) or "stripped"
	CGO           bool   // built with cgo
	ToolInterface string // fingerprint of the tool interface that `loupe go` compiled into the program; empty if it has none

	// Layout is the source of the layouts of the runtime's structs: "DWARF" (of the executable), "table" (of Loupe) or
	// "nearest table" (the release is unknown to Loupe). It is empty if the process could not be read.
	Layout string

	Goroutines int      // number of goroutines, as runtime.NumGoroutine counts them; -1 if it could not be read
	Engines    []string // the engines that support the program: "uprobe", "inline", and "agent" if the agent in the program listens
	Container  string   // ID of the container that the process belongs to; empty outside of containers
	NSPID      int      // PID in the PID namespace of the process; 0 if it is in the namespace of the observer
}
