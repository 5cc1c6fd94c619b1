// Package tracev1 reads and checks execution traces of before Go 1.22, for which raw.Version.V1 reports true. These have no
// generations, and the toolchain's reader (golang.org/x/exp/trace) reads them: this package holds the trace in memory, and
// has that reader convert it.
//
// The central type is [Reader], which makes events of package event. [Validate] checks the structure of a trace before it
// has the toolchain's reader read it.
package tracev1
