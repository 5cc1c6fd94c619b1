// Zoo has a goroutine for each way in which one can rest: every wait reason,
// every shape of stack, every way to be created that can be had without a
// running goroutine. After `ready` nothing in it moves.
//
//	zoo [blocked-finalizer]
//
// With the argument, the runtime's finalizer goroutine is blocked in a
// finalizer and thereby shown as a user's goroutine; else it is idle.
//
// It adds the commands
//
//	leaks    from Go 1.27: takes a goroutine leak profile, after which leaked
//	         goroutines have the status that such a profile leaves on them
package main

import (
	"fmt"
	"os"
)

// commands holds what files for newer releases add to the protocol.
var commands = map[string]command{}

// exhibits holds what shows something, in the order of the files' names.
// Each returns soon, with its goroutines on their way to where they rest.
var exhibits []func()

// exhibit is called from the init functions of the files that have exhibits.
func exhibit(show func()) { exhibits = append(exhibits, show) }

// never is a channel on which nothing is ever sent or received. It is a
// variable of the program, so that it is reachable and no wait on it a leak.
var never = make(chan int)

func main() {
	blockedFinalizer := false
	for _, arg := range os.Args[1:] {
		if arg != "blocked-finalizer" {
			fmt.Fprintf(os.Stderr, "zoo: unknown argument %q\n", arg)
			os.Exit(2)
		}
		blockedFinalizer = true
	}
	for _, show := range exhibits {
		show()
	}
	showFinalizer(blockedFinalizer)
	serve(true, commands)
}

// check ends the program when something fails that cannot fail.
func check(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "zoo: %v\n", err)
		os.Exit(1)
	}
}
