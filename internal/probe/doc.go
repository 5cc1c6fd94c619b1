// Package probe turns a running Go program into a stream of events: which probes there are, where they sit in a given
// executable, what they need to know of it, and what their records mean.
//
// The central type is Session. It makes a Plan for the process (package goproc), has an Engine carry it out, takes a
// snapshot while the probes already fire, and puts both together, so that the stream begins with the goroutines that are
// alive and has no gap after it. How events leave the target is the engine's business: package uprobe does it by eBPF.
//
// A probe is a line in a table (table.go) and a few lines of C (package csrc). What differs between Go releases is data
// in that table.
package probe
