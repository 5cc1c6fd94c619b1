// Package live maintains the state of running Go programs from their events.
//
// An [Observation] follows the events of one [Source], such as a *loupe.Session. It passes them to a [sched.Machine]. After a
// loss of events, it asks the source which goroutines are alive, and repairs the state. Observations are independent of each
// other. A process can have many of them, each with its own limits.
//
// [Observation.Take] returns a [Picture]: the state of the program at one moment, the differences to an earlier picture, and
// the accuracy of both. A [Query] selects the details that the picture contains.
//
// A program with its own source of state uses a [Sampler] to take pictures, and a [Feed] to pass events to a sched.Machine.
package live
