// Package sched gives a stream of events its meaning: what every goroutine is doing and since when, how its time was
// spent, where goroutines come from, where they wait, and how long the scheduler lets them wait for a processor.
//
// The central type is Machine. Apply takes one event.Event after the other, of any source; the other methods copy out
// what views, reports and profiles show. A Machine is for one process and may be used from several goroutines.
//
// # States
//
// A goroutine is runnable, running, in a syscall or waiting, or its state is unknown. Each event says which state
// follows, and which one must have come before (see rules). The time between two events counts for the state between
// them when both agree. When they do not, something was not seen: the state is repaired, and the time counts as
// uncertain. So for every goroutine
//
//	running + runnable + in syscalls + blocked + uncertain = time since it was first seen
//
// holds exactly. Time from before the observation is in no sum; only Goroutine.Since goes back further.
//
// # System calls that are not observed
//
// Calls are usually not observed. A goroutine that is in one then counts as running. When the call takes long, the
// runtime gives the processor away and the goroutine is started again when it comes back: GoStart follows GoStart. That
// is no repair; the time in between counts as running, and Totals.Resumed counts how often it happened. With calls
// observed, GoStart of a goroutine in a syscall is how a long call ends: all the time until then was the call. A
// GoSyscallEnd that follows changes nothing. An execution trace tells more: its GoSyscallEnd comes when the call is over, and
// says that the goroutine is runnable when it has to wait for a processor then.
//
// # Long waits only
//
// When only long waits are observed (Options.MinBlock), starts and stops are missing and a wait is known when it is over.
// States are unknown then, since any of them could be; waits and who ended them are counted in full. In general a state
// is told only when the observed kinds contain the events that end it.
//
// # Loss
//
// Lost makes every goroutine uncertain until its next event. A length of time that spans a loss is in no sum of waits,
// latencies or times in states, but in those of uncertain time. A goroutine whose end was lost stays, marked uncertain,
// until Reconcile compares with a list of those that are alive.
package sched
