// Package sched interprets a stream of events. It determines what every goroutine is doing and since when, how the
// goroutine spent its time, where goroutines are created, where they wait, and how long they wait to be scheduled.
//
// The central type is [Machine]. Its Apply method takes one event.Event after the other, from any source. Other methods
// return copies of the data that views, reports and profiles show. A Machine is for one process. It is safe for
// concurrent use, except that events must be applied one after the other.
//
// # States
//
// A goroutine is runnable, running, in a system call or waiting, or its state is unknown. Each event implies the state
// that follows it, and the state that precedes it (see package gostate). If the state that an event implies for the time before
// it is the one that followed the previous event, the time between the two counts for that state. Otherwise something
// was not observed: the state is repaired, and the time counts as uncertain. Therefore the equation
//
//	running + runnable + in syscalls + blocked + uncertain = time since it was first seen
//
// holds exactly for every goroutine. No sum includes time from before the session started; only Goroutine.Since can be
// earlier.
//
// # Threads and Ps
//
// A thread runs one goroutine at a time, and so does a P, of which there are GOMAXPROCS. Events contain the thread on
// which they happened, and GoStart also contains the P. If a thread or a P starts another goroutine, the previous one
// is no longer running, even though no event reported this: it is in a system call, or has returned from one and is
// waiting for a P. As a result, two running goroutines never share a P. If the Ps are unknown, Account limits the
// number of running goroutines, and selects the goroutine that most likely lost its P as the one that is not running.
//
// # System calls that are not observed
//
// By default, system calls are not observed. A goroutine in a system call counts as running until its P runs another
// goroutine, or until Account shows that the P is free. From then on it counts as being in a system call. If the next
// event is a GoStart, the system call lasted until then. If it is another event, the goroutine got a P without an
// event, and the time is uncertain. A GoStart of a running goroutine is not a repair. The time counts as running, and
// Totals.Resumed counts these events.
//
// If system calls are observed, a GoSyscallEnd can come before the goroutine has a P. If a P may be free, the goroutine
// counts as running. Its next event decides what it was in the meantime: runnable if that is a GoStart, running
// otherwise. A long system call can also end with a GoStart of a goroutine that is in a system call. All the time until
// then belongs to the call, and a GoSyscallEnd after it changes nothing. In execution traces, GoSyscallEnd contains
// whether the goroutine has to wait for a P.
//
// # Processor time
//
// The running time of goroutines, as measured by events, includes the time during which their threads wait for a
// processor or sleep in system calls. Processor time comes from the kernel, which accounts it by thread: see Account.
//
// # Long waits only
//
// If only long waits are observed (Options.MinBlock), there are no events for starts and stops, and a wait is reported
// when it ends. In this case states are unknown, because every state is possible. Waits, and the goroutines that ended
// them, are counted completely. In general, a state is only reported if the observed kinds include the events that end
// it.
//
// # Loss
//
// After a Lost event, the state of every goroutine is uncertain until its next event. A duration that spans a loss is not
// included in the sums of waits, latencies or times in states, only in that of uncertain time. A goroutine whose end was
// lost remains, marked as uncertain, until Reconcile compares the goroutines with a list of those that are alive.
package sched
