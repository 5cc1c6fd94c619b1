// Package sched interprets a stream of events. It determines the state of every goroutine and the time spent in each
// state, where goroutines are created, where they wait, and the latency of the scheduler.
//
// The central type is [Machine]. [Machine.Apply] takes the events of one process, one at a time, from any source. The other
// methods return copies of the collected data, for views, reports and profiles. A Machine is safe for concurrent use, but
// only one goroutine may apply events.
//
// # States
//
// A goroutine is runnable, running, in a system call or waiting, or its state is unknown. Each event implies the state
// after it, and for most kinds also the state before it. If the state before the event is the state after the previous
// event of the goroutine, the time between the two events counts as time in that state. Otherwise an event was not
// observed: the Machine repairs the state and counts the time as uncertain. For every goroutine, this equation holds
// exactly:
//
//	running + runnable + in syscalls + blocked + uncertain = time since the goroutine was first seen
//
// Sums do not include time before the start of the observation. Only [Goroutine.Since] can be earlier.
//
// # Threads and Ps
//
// A thread runs at most one goroutine at a time, and so does a P. There are GOMAXPROCS Ps. Events contain the thread on
// which they happened, and GoStart can also contain the P. If a thread or a P starts another goroutine, the previous
// goroutine no longer runs, even if no event reported that: it is in a system call, or has returned from one and waits for
// a P. Therefore two running goroutines never share a P. If the Ps are unknown, [Machine.Account] provides GOMAXPROCS, which
// limits the number of running goroutines. If more goroutines count as running, the Machine selects the goroutine that most
// likely has lost its P, and counts it as being in a system call.
//
// # System calls that are not observed
//
// By default, system calls are not observed. A goroutine in a system call counts as running until its P runs another
// goroutine, or until [Machine.Account] shows that it has no P. From then on it counts as being in a system call. If its next
// event is a GoStart, the system call lasted until that event. Any other event means that the goroutine got a P without an
// event, and the time counts as uncertain. A GoStart of a running goroutine is not repaired: the time counts as running,
// and [Totals].Resumed counts these events.
//
// If system calls are observed, GoSyscallEnd can precede the moment at which the goroutine gets a P. The goroutine counts as
// running if a P may be free. Its next event shows the actual state: runnable if the event is a GoStart, otherwise running.
// A long system call can also end with a GoStart. In this case the system call lasted until the GoStart, and a following
// GoSyscallEnd changes nothing. In execution traces, GoSyscallEnd contains whether the goroutine has to wait for a P.
//
// # Processor time
//
// The running time of a goroutine includes the time during which its thread waits for a processor or sleeps in a system
// call. The processor time of goroutines is derived from the kernel's accounting of threads: see [Machine.Account].
//
// # Long waits only
//
// If only long waits are observed ([Options].MinBlock), GoStart and GoStop are not reported, and a wait is reported when it
// ends. All states are unknown in this case. Waits, and the goroutines that end them, are still counted completely. In
// general, a state is reported only if the observed kinds include the events that end it.
//
// # Sampling
//
// A Resample event says that another part of the goroutines is sampled. The Machine forgets the goroutines that are no longer
// sampled: they are not live, and have not ended (Flow.Unsampled). Their times in states remain in the sums. Goroutines that begin to
// be sampled have a GoStatus.
//
// # Loss
//
// After a Lost event, every goroutine is uncertain until its next event. A duration that spans a loss counts as uncertain
// time. It is not included in waits, latencies or times in states. A goroutine whose end was lost remains in the Machine and
// is uncertain until [Machine.Reconcile] compares the goroutines with a list of live goroutines.
package sched
