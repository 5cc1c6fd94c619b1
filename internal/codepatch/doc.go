// Package codepatch moves instructions of a running program to make room for a
// probe, for amd64 and arm64. The architecture is a parameter.
//
// At a site, a jump to a stub replaces a few bytes of a function. The stub
// executes the displaced instructions, with the probe's code at the right place
// among them, and jumps back. [Plan] finds the bytes that can be displaced and
// returns them as a [Displacement], which generates the code of the stub and the
// jump to it for a given stub address. The package does not write to the
// program. The caller stops threads, provides memory near the text and the
// probe's code, and writes in the right order.
//
// If it is not certain that instructions can be moved, the package returns an
// error with the reason. These are the rules:
//
//   - All instructions of the function are decoded. None of its branches may
//     lead between the first and the last displaced instruction. Jump tables
//     are data. If a function has one, the site is rejected unless the stack
//     pointer proves that the table does not lead there.
//   - No return address ever points into a stub, because the runtime unwinds
//     stacks and does not know about stubs. A call is replaced by a call, so
//     that it leaves the same return address as before. Calls are not displaced
//     in any other way.
//   - A displaced instruction has the same effect in the stub as in its original
//     place. PC-relative branches and operands keep their targets, and no other
//     register, flag or memory is modified.
//
// The probe's code depends on two facts that a displacement provides: whether
// the flags are still needed when the code runs, and where the stack pointer is.
// On arm64, the probe must also preserve the link register and the word below
// the stack pointer, where Go saves the frame pointer. The remaining stack space
// is not provided: functions without a stack check have almost none.
//
// Two conditions cannot be checked here and are left to the caller: that no
// thread and no goroutine has stopped inside the displaced bytes, where it would
// resume in the middle of the jump (one that has stopped at their start is
// safe), and that nothing outside the function jumps into the middle of it, as
// happens only with assembly functions such as runtime.duffzero (see
// [Function.Entries]).
package codepatch
