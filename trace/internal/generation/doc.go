// Package generation reads an execution trace of Go 1.22 or later and splits it into generations.
//
// The central type is [Generation], the decoded contents of one generation. An [Input] reads the bytes, and a [Loader]
// assembles them into generations. Strings, stacks, CPU samples and clocks are decoded here. The events of threads remain
// in their batches, which package order decodes.
//
// A Loader that has a list of problems continues after each problem, as Validate requires. A Loader without a list stops
// at the first Error, as a Reader requires.
package generation
