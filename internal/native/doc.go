// Package native reads what a call stack needs of machine code that is not Go code: the names of functions, and how to find the
// caller of a frame. Such code is C code in a cgo program, shared libraries, and the vDSO.
//
// The central type is [Image], an ELF file. Names come from its symbol table. Callers come from its call frame information
// (.eh_frame), which compilers write for every function on amd64 and arm64, whether or not the code keeps frame pointers. Files
// are foreign input: what is malformed has no names and no callers.
package native
