// Package dep is a package of the program. It is also in the agent.
package dep

import "os"

var Initialized = say("dep")

func say(name string) string {
	os.Stderr.WriteString(name + " init\n")
	return name
}
