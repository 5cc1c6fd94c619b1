package testcmd

import "regexp"

// machineNotes are what commands print on machines whose counter is not a reliable clock, or which are busy.
var machineNotes = regexp.MustCompile(`(?m)^loupe: note: (using the coarse clock|times are exact to |[0-9,]+ threads? did not run for ).*\n`)

// WithoutMachineNotes returns what a command wrote to stderr without the notes that depend on the machine it runs on.
func WithoutMachineNotes(stderr string) string { return machineNotes.ReplaceAllString(stderr, "") }
