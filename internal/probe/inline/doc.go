// Package inline is the machine-code side of the engine that needs no eBPF: the probes run within the target itself, reached
// from patched places by stubs.
//
// Program is what is put into the target: the probes (package csrc), behind them memory of the target's own. Its Body makes
// the code of one place: find the current g, take a lane, save the registers there, call the probe on the lane's stack, put
// everything back. Nothing is written to the goroutine's stack, which may have no room, and nobody waits.
//
// Region is the memory that the target and the reader share. It has lanes, each with a ring that one hit at a time writes
// to. Reader brings the records of all lanes in the order of their times, which are ticks of the processor's counter there
// and CLOCK_MONOTONIC by a Clock afterwards.
//
// Who attaches does this:
//
//  1. NewClock, GeometryFor, NewRegion, NewProgram.
//  2. In the target: map Program.Size bytes near the text, without reserving them; write Code to their beginning and
//     Private to PrivateAt; forbid writing up to PrivateAt, and let a forked child find the rest wiped (MADV_WIPEONFORK).
//     Map Region.FD, shared, at a multiple of Alignment. Both are there for as long as a thread may be in a body.
//  3. Region.Place, Region.List. For each place of a probe Program.Body, behind the stack check.
//  4. Region.Enable; then Reader.Drain again and again, at least every few milliseconds.
package inline
