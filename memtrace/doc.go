// Package memtrace counts what a piece of a program allocates on the Go heap, and limits it.
//
//	err := memtrace.Trace(ctx, func(ctx memtrace.Context) {
//		result, err = search(ctx, query)
//		bytes, objects, calls := ctx.Used()
//		log.Print(bytes, objects, calls)
//	}, memtrace.WithLimitBytes(16*memtrace.MiB))
//
// The context is done as soon as the trace passes a limit, so that what is done for a request ends as it does at a deadline.
// Nothing stops code that does not look at its context.
//
// The counts only grow. They are what was allocated, not what is in use: an object that the garbage collector has freed still
// counts. They are exact: what [runtime.MemStats] adds to TotalAlloc and Mallocs, if only the traced code runs. There are two
// exceptions. What the runtime allocates on a stack of its own, such as the descriptor of a new goroutine, is not counted. And
// the runtime puts objects of less than 16 bytes without pointers together into blocks of 16 bytes. Here each counts
// as an object, with its own size rounded to that of a size class; in TotalAlloc the blocks count.
//
// In a bubble of [testing/synctest], the context of a trace that has passed a limit is done when its Done or Err is next
// called, not before.
//
// Goroutines that the traced code starts do not count, unless it starts them by [Go], or the trace is one [WithDescendants].
//
// # How it works
//
// The first trace patches the functions of the runtime that allocate: a jump to a few instructions that look up what the
// current goroutine counts into, and add to it. No lock is taken and nothing is allocated. An allocation costs some
// nanoseconds more from then on, in traced goroutines about ten. A program that only imports the package is not changed.
//
// The first trace with descendants also patches the function that go statements call. In a goroutine of such a trace it starts a
// function of this package instead, which counts, calls the function of the go statement, and ends the counting when that returns,
// panics or calls [runtime.Goexit]. Starting a goroutine takes about a microsecond more then.
//
// To patch, the package makes the pages of these functions writable for a moment, and lets only one thread execute Go code
// meanwhile, as [runtime.GOMAXPROCS] does. It does so only where it is certain: on Linux, on amd64 and arm64, with Go 1.23 to
// 1.27, and if the functions are what the program's file says. It tests the result with known allocations. Otherwise [Trace]
// returns an error that wraps [ErrUnsupported].
package memtrace
