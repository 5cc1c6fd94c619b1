// Package insn reads the machine code of single Go functions, for amd64 and
// arm64: where a probe may sit and what it will cost there, what the function
// calls, where it returns, and which static data it touches.
//
// The central type is [Code]: the bytes of one function and the address they
// run at. Everything here is a pure function of such bytes; where they come
// from (an ELF file, a live process) is the caller's business. Bytes are
// hostile input: any sequence is accepted, in linear time, and an instruction
// that is not understood is stepped over instead of failing the function.
//
// Instructions are told apart by golang.org/x/arch/x86/x86asm on amd64, on top
// of a length decoder of this package that also knows the encodings x86asm
// does not, so a stretch of unknown vector code never puts the decoding out of
// step. arm64 instructions all have four bytes; the few classes that matter
// here are read from their fields.
//
// [PrologueSite], [Calls] and [Returns] name places for probes, and
// [Emulations] says which instructions make a uprobe cheap, by kernel version.
// [ArgLocation], [ResultLocation] and [GAt] tell what a probe finds where.
//
// On top of the decoding stands [InferGlobals]: it finds the runtime's
// variables (allgs, allm, sched, ...) in a binary without a symbol table, by
// what well-known runtime functions refer to.
package insn
