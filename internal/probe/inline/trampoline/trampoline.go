//go:build amd64 || arm64

// Package trampoline calls machine code with given values in all registers, and returns the values after the call. It
// is for tests of machine code.
package trampoline

// Registers are indexed by their number in machine code. In are those that the code finds; the code goes on the stack that
// is among them, of which 512 bytes must be above the stack pointer. Out are those that it leaves behind.
//
// The code must end in Tail.
type Registers struct {
	In, Out [32]uint64

	_ [4]uint64 // what Go code relies on, meanwhile
}

// Room is what must be above the stack pointer: where the way back is.
const Room = 512

// Call calls the code at an address. It must not be interrupted by the garbage collector for long: the code cannot be
// preempted.
//
//go:noescape
func Call(code uintptr, r *Registers)
