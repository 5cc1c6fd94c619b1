// Package codepatch moves instructions out of the way of a probe in a program
// that runs, for amd64 and arm64; which of them is a parameter.
//
// At a site a few bytes of a function are replaced by a jump to a stub. The
// stub carries out what was displaced, with the probe's code in the right place
// among it, and jumps back. [Plan] says which bytes can be displaced, as a
// [Displacement]; that makes the stub's code and the jump to it for the address
// where the stub is to stand. Nothing is written here: stopping threads, memory
// near the text and the order of writes are the caller's business, and so is
// the probe's code.
//
// What cannot be moved with certainty is refused, and the error says why. These
// are the rules:
//
//   - Every instruction of the function is decoded. No branch of it may lead
//     between the first and the last displaced instruction. Jump tables are
//     data; where a function has one, that nothing leads there is proven by the
//     stack pointer, or the site is refused.
//   - No return address ever points into a stub: the runtime unwinds stacks
//     and knows nothing of stubs. A call is replaced by a call, so that it
//     leaves the return address that it always left, and calls are not
//     displaced otherwise.
//   - A displaced instruction does in the stub exactly what it did in its
//     place: branches and operands relative to the program counter keep their
//     targets, and no other register, flag or memory is touched.
//
// Two things a probe's code must know, and a displacement tells: whether the
// flags are still needed when it runs, and where the stack pointer is. On arm64
// it must also keep its hands off the word below the stack pointer, where Go
// saves the frame pointer, and preserve the link register. How much stack is
// left for it is not told: in functions without a stack check next to nothing.
//
// What cannot be seen here and is left to the caller: that no thread and no
// goroutine rests inside the displaced bytes (see [Displacement.Inside]), and
// entries into the middle of a function from elsewhere, which only assembly
// functions like runtime.duffzero have (see [Function.Entries]).
package codepatch
