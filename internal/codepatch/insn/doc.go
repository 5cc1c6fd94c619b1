// Package insn analyzes the machine code of single Go functions, for amd64 and
// arm64. It finds where a probe can be attached and what it costs there, which
// functions are called, where the function returns, and which static data it
// accesses.
//
// The central type is [Code]: the bytes of one function and the address at
// which they run. All functions of the package are pure functions of such
// bytes; the caller reads them from an ELF file or a live process. The bytes are
// hostile input. Any sequence is accepted, in linear time. An unknown
// instruction is skipped and does not make the analysis fail.
//
// On amd64, instructions are identified by golang.org/x/arch/x86/x86asm. A
// length decoder in this package also handles the encodings that x86asm does
// not support, so decoding stays in step after unknown vector code. On arm64,
// all instructions have four bytes, and the few classes that are relevant here
// are identified by their bit fields.
//
// [EntrySite], [Calls] and [Returns] find places for probes, and
// [EmulatedAt] reports which instructions make a uprobe cheap, by kernel
// version. [ArgsInRegs], [GReg] and [TLSOffset] report where a probe finds
// arguments and the current g.
//
// [InferGlobals] finds the runtime's variables (allgs, allm, sched, ...) in a
// binary without a symbol table, from the references in well-known runtime
// functions.
package insn
