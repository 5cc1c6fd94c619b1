// Package generation reads the generations of an execution trace of Go 1.22 or later, from bytes to batches and tables.
//
// The central type is [Generation]: what a trace says in one generation, in the order in which it says it. An [Input] reads
// the bytes, and a [Loader] divides them into generations. The events of threads stay in their batches, which package order
// decodes. Strings, stacks, CPU samples and clocks are taken out of theirs.
//
// A Loader works in one of two ways. With a list of problems it continues after each problem, as Validate does. Without a
// list it stops at the first Error, as a Reader does.
package generation
