// Package trace connects Loupe's events with Go execution traces: the files that go tool trace, golang.org/x/exp/trace and
// other viewers open.
//
// # Reading
//
// A Reader yields the events of a trace, of Go 1.11 and later, in an order in which they can have happened. It puts them in
// order by the rules that the toolchain's reader has, and refuses what that refuses; its type says which event of a trace
// becomes which event.Event. Memory is bounded by one generation, before Go 1.22 by the
// trace, and in any case by Reader.MaxMemory.
//
// Validate reads a trace for what is wrong with it, and goes on behind what it finds: an Error is something for which the
// toolchain's reader refuses the trace, a Warning something that no Go program writes.
//
// # Writing
//
// A Writer turns a stream of event.Event into a trace, while the stream goes on. Its source is any that yields events, a
// live process for one; its sink is an io.Writer, which gets one batch of the trace with each Write. Memory is bounded by
// what is alive (goroutines, threads, tasks) and by the strings and stacks of one generation, a second of the trace.
//
// Readers of traces replay the scheduler: each goroutine, thread (M) and P has a state, and an event that does not fit is
// fatal. The Writer follows the same model and writes what it allows. Events keep their order, which is that of causes,
// and get times that increase strictly: one that says it was earlier than its predecessor is a nanosecond later. Where an
// event does not fit the model, transitions come before it that lead to what it tells:
//
//   - A goroutine that starts although it runs, or whose thread or P goes on with another one, has been in a system call
//     that was not observed: a call of no length is written, and the goroutine waited for a P after it.
//   - A goroutine that is seen for the first time is told as one that was there from the begin, in the first generation;
//     in later ones it seems to be created, by nobody.
//   - What events that are lost would have told is made up as far as needed. A goroutine of which nothing is known but that
//     it left its thread blocks for the reason "not observed". One whose end was lost stays.
//
// All of these are counted (WriterStats). Messages of the category "loupe" tell how many events were lost.
//
// Each generation begins with the status of all that is alive, so the generations from any one on are a trace by
// themselves, behind the header.
//
// An M is Event.TID. What happened on a thread that is not known is on one with an ID from 1<<30 on. A P is Event.P where
// that is known and less than 4096. Else threads get Ps when they need one. When running goroutines use all, it is the P of
// one that must have entered a system call, if WriterOptions.Procs says how many there are, else a new one. The trace tells how many there are (ProcsChange) as they are seen.
//
// These are written as follows:
//
//   - GoStatus: as the status of a goroutine. One that runs or is in a system call is told when its first event comes, on
//     the thread of that. Since raw.Go123 the stack is told too; it ends with the function that the goroutine started.
//   - GoCreate: the new goroutine has a stack of one frame, the function that it starts.
//   - GoBlock: with Event.TraceReason, or else with the tracer's word for Event.Reason. The wait of a coroutine that hands
//     over has the reason "coroutine". It comes after the GoUnblock of the next one, which the waiting one does.
//   - GoUnblock: on the thread where the goroutine runs that is Event.By. If that is none or does not run, on a thread
//     without a goroutine.
//   - GoSyscallEnd: if the next event of the goroutine is a GoStart, it was runnable in between and has lost its P.
//   - GCBegin, GCEnd, STWBegin, STWEnd: they need a goroutine that runs. If the one that they tell of is not observed, it
//     is shown for that moment. If they tell of none, any other that runs will do; when none runs, one called "loupe".
//   - ChanMake, ChanSend, ChanReceive, ChanClose, Select, SemAcquire, SemRelease: as messages of runtime/trace. The category
//     is the name of the kind. The message has Event.Object in hexadecimal and Event.Value in decimal, those that are not
//     0, with a space in between: "0xc000012345 16".
//   - Exec: all goroutines and tasks end.
//
// Times are nanoseconds since the Unix epoch, also in the trace itself; since raw.Go125 the trace says so. Samples of the
// CPU profiler are exact to some 256 ns, because of how readers calculate.
//
// The runtime.goexit at the end of a stack is left out, as the Go tracer does. Each pair of function and line has a program
// counter of its own, which is no address of the program.
//
// Streams of long waits only (loupe.Options.MinBlock) make poor traces: a wait is known when it is over, but time in a trace
// goes on, so it is written without its length.
package trace
