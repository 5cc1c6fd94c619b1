// Package observe is an agent that lets Loupe observe the program in which it is, without privileges: no ptrace, no eBPF, no root. It
// listens on a Unix socket that only the user of the program can open, and sends its clients what goroutines do.
//
// A program that imports the package for its side effects, and is built with `loupe go build`, contains the agent:
//
//	import _ "github.com/loupe-go/loupe/glti/observe"
//
// Then `loupe top PID`, `loupe trace PID` and `loupe record PID` use it. In a program that the go command has built by itself, the agent
// does nothing but report that once.
//
// # Cost
//
// Until a client connects, the agent is a goroutine that waits for one: no event is recorded. With a client, the runtime records the events
// that the client has selected. The agent never waits for a client. What does not fit into the buffer of a connection is dropped and
// counted; the client receives the counts.
//
// # Socket
//
// The socket is DIR/PID.sock. DIR is loupe in the directory XDG_RUNTIME_DIR, or loupe-UID in the directory for temporary files. It is made
// with mode 0700, and must belong to the user; otherwise the agent does not listen. On Linux the agent also asks the kernel for the user of
// a client, and refuses others than its own and root. The environment variable GLTI_OBSERVE is the path of the socket, or off.
//
// Package wire describes the protocol.
package observe

import (
	"fmt"
	"os"
	"sync"

	"github.com/loupe-go/loupe/glti"
)

// Name is the name of the agent in reports.
const Name = "observe"

// Variable is the environment variable with the path of the socket. The value off means that the agent does not listen.
const Variable = "GLTI_OBSERVE"

func init() {
	glti.RegisterAgent(glti.Agent{Name: Name, Init: Init, Shutdown: Shutdown})
}

// running is the agent, after Init.
var running struct {
	sync.Mutex
	agent *agent
}

// Init starts the agent, once. It is what an agent that is loaded at run time calls in its InitGltiAgent.
func Init(*glti.GLTIEnv) {
	running.Lock()
	defer running.Unlock()
	path := os.Getenv(Variable)
	if path == "off" || running.agent != nil {
		return
	}
	a, err := start(path)
	if err != nil {
		fmt.Fprintf(os.Stderr, "glti: agent %s: %v\n", Name, err)
		return
	}
	running.agent = a
}

// Shutdown removes the socket and sends the exit code of the program to the clients.
func Shutdown(exitCode int) {
	running.Lock()
	a := running.agent
	running.agent = nil
	running.Unlock()
	if a != nil {
		a.end(exitCode)
	}
}
