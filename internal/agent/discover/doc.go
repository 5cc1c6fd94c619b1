// Package discover follows the processes of Go programs on this machine: which of them exist, when one appears, ends, or executes
// another program.
//
// The central type is [Watcher]. It reads /proc again and again. Whether an executable is a Go program is determined once for each file and each build ID.
// Programs of other languages that load a library written in Go are not found.
package discover
