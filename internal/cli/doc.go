// Package cli is the command line of Loupe: one file for each command, which reads its flags, calls the parts that do the
// work, and has package report print what they found.
//
// Run is its entry. What all commands share is here too: what a TARGET means (target.go), and how an error becomes one
// line and an exit status (errors.go).
package cli
