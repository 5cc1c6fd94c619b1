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
// # Threads and Ps
//
// A thread runs one goroutine at a time, and so does a P, of which there are GOMAXPROCS. Events say on which thread they
// happened, and GoStart on which P. When either starts another goroutine, the one before does not run any more, although no
// event said so: it is in a system call, or has come back from one and waits for a P. So running goroutines never share
// a P. Where the P is unknown, Account bounds them: the goroutine that most likely lost its P is the one taken not to run.
//
// # System calls that are not observed
//
// Calls are usually not observed. A goroutine that is in one counts as running until its P runs another goroutine, or until
// Account shows that the P is free; then it is in a system call. When GoStart follows, the call took until then. When
// another event follows, the goroutine got a P without an event: the time is uncertain. GoStart of a goroutine that runs
// is no repair; the time counts as running, and Totals.Resumed counts how often it happened.
//
// With calls observed, GoSyscallEnd may come before the goroutine has a P. It is running if a P may be free. Its next event
// tells what it was: before GoStart it was runnable, before any other event it was running. GoStart of a goroutine in a
// syscall is another way for a long call to end: all the time until then was the call, and a GoSyscallEnd that follows
// changes nothing. In execution traces GoSyscallEnd says whether the goroutine has to wait for a P.
//
// # Processor time
//
// The time that goroutines run, by events, includes the time that their threads wait for a processor, or sleep in system
// calls. Processor time comes from the kernel, which accounts it by thread: see Account.
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
