// Package probe observes a running Go program and produces a stream of events. It defines which probes exist, where they
// are placed in a given executable, which settings they need, and what their records mean.
//
// The central type is [Session]. It makes a [Plan] for the process (package goproc), and an [Engine] executes the plan. The
// session takes a snapshot while the probes are already active, and combines it with their records. As a result, the stream
// starts with the existing goroutines and has no gap after them. Events leave the target through the engine. Package
// uprobe contains an engine that uses eBPF, package inline one that does not.
//
// A probe consists of a [Declaration] and a few lines of C (package csrc). Probes with one owner are a [Set]. The runtime's set
// is in table.go; other packages declare sets for libraries, which receive their own records
// ([Note]) or count in tables ([Cells]). Differences between releases are data in the declarations.
package probe
