// Package output writes the results of commands: to stdout and stderr, which may be blocked, and to files.
//
// A Stream is stdout or stderr. It waits for a reader that reads slowly or not at all, but only until the command is
// asked to end. A File gets its name when it is complete.
package output
