// Package cli implements the command line of Loupe. Each command has a file of its own. A command parses its flags, calls
// the packages that do the work, and uses package report to print the results.
//
// [Main] is the entry point. The package also contains what all commands share, such as how a TARGET is resolved
// (target.go), and how an error is mapped to a line of output and an exit status (errors.go).
package cli
