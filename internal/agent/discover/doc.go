// Package discover follows the processes of Go programs on this machine: which of them exist, when one appears, ends, or executes
// another program.
//
// The central type is [Watcher]. The kernel reports each execve(2) and exit at once: by its process connector (cn_proc), or where that is
// unavailable, as in a container with a network namespace of its own, by tracepoints of the scheduler. Where both are unavailable, the
// Watcher reads /proc again and again. Whether an executable is a Go program is determined once for each file and each build ID.
// Programs of other languages that load a library written in Go are not found.
package discover
