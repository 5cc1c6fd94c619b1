// Package gobin reads Go executables on disk: the Go release that built them and the modules they contain, functions,
// source lines including inlined calls, the addresses of the runtime's data, the layout of the runtime's structs, and the
// places in the machine code where a probe can be attached.
//
// The central type is [Binary]. Everything works on stripped executables. Instead of a symbol table, the package uses the
// tables that the Go runtime requires (the pclntab and the module data) and the instructions of runtime functions. All
// input is treated as hostile: every offset and length is checked before use.
//
// Addresses in this package are the virtual addresses in the file. The address in a process that runs a
// position-independent executable is the sum of this address and the load bias.
package gobin
