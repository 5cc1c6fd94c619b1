// Package gobin knows everything about a Go executable on disk: the Go release that built it and the modules in it, its
// functions, the source lines of its code with inlined calls, the addresses of the runtime's data, the layout of the
// runtime's structs, and the places in its machine code where a probe may sit.
//
// Its central type is Binary. All of it works on stripped executables: what a symbol table would say is read from the
// tables that the Go runtime itself cannot do without (the pclntab and the module data) and from the instructions of
// runtime functions. Whatever a file says is taken as hostile: every offset and length is checked before use.
//
// Addresses in this package are the file's own virtual addresses. In a position-independent executable a process adds
// its load bias.
package gobin
