// Package functions is a set of probes for functions of the program that the user selects by their names: each call is a span.
//
// A span has the name of the function, the kind internal and, if the executable has debug information, the parameters and the results as
// attributes loupe.go.arg.NAME and loupe.go.result.N. Reported are the values of parameters and results that are a bool, an integer, a
// pointer (its address) or a string (at most 64 bytes), the length of a slice, and the type of the value in an interface, with the
// message of an error that was made by package errors or fmt. Of others only the type is reported: floating point numbers are in
// registers that probes cannot read. At most 8 parameters and 8 results have values.
//
// The parent of a span is the innermost open span of its goroutine: the request that it serves, the call of another selected function, or
// an operation of a library. If there is none, the span is the root of a trace. A call ends when the function returns, after its deferred
// functions. If its last result is an error other than nil, the span has the status Error. A call that a panic or runtime.Goexit ends has
// the status Error, too; its end is when the panic was recovered, or when all deferred functions have been called.
//
// A call is identified by its goroutine and by the distance of its frame from the beginning of the stack, which does not change when the
// stack moves. So calls nest, and a call that ended without a note is found by the next note of the goroutine.
//
// Not reported are calls that are inlined, and functions of the Go runtime, functions written in assembler, functions that never return or
// end with a jump to another function, and those that the compiler has generated. On amd64 engine inline requires an instruction before
// each return that a jump can replace: one that removes a frame of at least 128 bytes, or another one of at least 6 bytes. A function
// that is not reported causes a warning with the reason.
//
// A request that is sent in a call outside of any request, and whose context is propagated, is the root of a trace of its own, with a link
// to the call: the probes choose its trace before the call is known.
//
// The central function is [Find], which selects functions; its result makes the sets.
package functions

//go:generate go run ../../probe/csrc/flatten -ebpf -headers ../../probe/csrc -source probes.c -list probes.c -package functions -out code.go -code code
