// Package inline implements an engine that does not need eBPF. The probes are machine code in the target itself, and stubs
// at patched places call them.
//
// [Program] is the code that is put into the target: the probes (package csrc), followed by private memory of the target.
// Its Body method generates the code for one place. This code finds the current g, takes a lane, saves the registers in the
// lane, calls the probe on the stack of the lane, and restores everything. It does not write to the goroutine's stack, which
// may have no space left, and it never waits.
//
// [Region] is the memory that the target and the reader share. It contains lanes. Each lane has a ring of events and a ring
// of stacks, and only one probe hit at a time writes to them. [Reader] merges the events of all lanes in the order of their
// times. In the rings, a time is a value of the processor's counter or a sequence number; a [Clock] converts it to
// CLOCK_MONOTONIC.
//
// [Engine] installs all of this in a process with package ptrace, and removes it again. After an engine was killed, its
// [Notes] describe what it left behind, and [Repair] removes that.
package inline
