// Package job defines the protocol between testvm and the first process of the emulated machine.
package job

import (
	"strings"
	"time"
)

// ListPath is the file in the machine with the jobs, as a JSON array.
const ListPath = "/jobs.json"

// What the machine prints at the beginning of a line; Passed or Failed is the last of them.
const (
	Begins = "testvm: begins:"
	Ended  = "testvm: ended:"
	Passed = "testvm: passed:"
	Failed = "testvm: failed:"
)

// A Job is one command to run in the machine.
type Job struct {
	Dir   string        // where it runs
	Args  []string      // the command, by its path in the machine
	Env   []string      // what is added to the environment
	Limit time.Duration // after which it is killed
}

// String returns the command.
func (j Job) String() string { return strings.Join(j.Args, " ") }
