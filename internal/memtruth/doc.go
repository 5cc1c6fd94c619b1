// Package memtruth tests package memtrace in programs that are built in different ways, next to other tools that patch or probe
// the same functions, and where the kernel does not permit code to be changed.
package memtruth
