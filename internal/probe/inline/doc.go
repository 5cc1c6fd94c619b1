// Package inline is the engine that needs no eBPF: the probes run within the target itself, reached from patched places by
// stubs.
//
// Program is what is put into the target: the probes (package csrc), behind them memory of the target's own. Its Body makes
// the code of one place: find the current g, take a lane, save the registers there, call the probe on the lane's stack, put
// everything back. Nothing is written to the goroutine's stack, which may have no room, and nobody waits.
//
// Region is the memory that the target and the reader share. It has lanes, each with rings of events and of stacks that one
// hit at a time writes to. Reader brings the events of all lanes in the order of their times, which are ticks of the
// processor's counter there, or numbers of hits, and CLOCK_MONOTONIC by a Clock afterwards.
//
// Engine puts all of that into a process by package ptrace, and takes it away again. What a killed one has left is found by
// its Notes, and removed by Repair.
package inline
