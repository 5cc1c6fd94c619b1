// Package tracev1 reads and checks execution traces from before Go 1.22, for which raw.Version.V1 reports true. These traces
// have no generations. The package holds the whole trace in memory and converts it with the toolchain's reader
// (golang.org/x/exp/trace).
//
// The central type is [Reader], which returns events of package event. [Validate] checks the structure of a trace before it
// passes the trace to the toolchain's reader.
package tracev1
