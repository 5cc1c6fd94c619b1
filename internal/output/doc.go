// Package output writes the results of commands to files, and to stdout and stderr, which can block.
//
// A [Stream] is stdout or stderr. It waits for a reader that is slow or has stopped reading, but only until the command
// is asked to stop. A [File] gets its name when it is complete.
package output
