// Package trace reads, writes and validates Go execution traces: the files that runtime/trace writes, and that go tool
// trace, golang.org/x/exp/trace and other viewers open. It converts between traces and the events of package event.
//
// # Reading
//
// A [Reader] yields the events of a trace written by Go 1.11 or later, in causal order. It orders events by the same
// rules as the reader of the Go toolchain, and rejects the traces that the toolchain's reader rejects. The
// documentation of Reader describes how the events of a trace map to [event.Event]. A Reader holds one generation of
// the trace in memory. Traces from before Go 1.22 have no generations and are held as a whole. In both cases memory is
// bounded by Reader.MaxMemory.
//
// [Validate] checks a trace for problems, and continues after each problem that it finds. A problem of severity [Error]
// makes the toolchain's reader reject the trace. A problem of severity [Warning] is something that no Go program writes.
//
// # Writing
//
// A [Writer] converts a stream of event.Event to a trace while the stream is running. The events can come from any
// source, such as a live process. The underlying io.Writer receives one batch of the trace with each call of Write,
// unless the trace is written as text. The memory of a Writer is bounded by what is alive (goroutines, threads, tasks),
// and by the strings and stacks of one generation, which covers one second by default.
//
// Readers of traces replay the scheduler. Every goroutine, thread (M) and P has a state, and an event that does not fit
// the state is a fatal error. The Writer applies the same model and only writes events that fit. Events keep their order,
// and times are strictly increasing: if an event is earlier than its predecessor, its time is set to one nanosecond after
// the predecessor. If an event does not fit the model, the Writer first adds the transitions that lead to it:
//
//   - If a running goroutine starts again, or if its thread or its P starts another goroutine, the goroutine must have
//     been in a system call that was not observed. The Writer adds a system call of no duration, after which the
//     goroutine waits for a P.
//   - If the first event of a goroutine is not a GoCreate, the goroutine is described as existing when the trace began if
//     this is the first generation. In later generations a GoCreate without a creator is added.
//   - Transitions whose events were lost are made up as far as necessary. A goroutine that is known to have left its
//     thread, but not why, blocks with the reason "not observed". A goroutine whose end was lost remains in the trace.
//
// [WriterStats] counts all of these. Log messages of the category "loupe" record how many events were lost.
//
// Each generation begins with the status of everything that is alive. Therefore the header followed by all generations
// from any one on is a valid trace.
//
// The M of an event is Event.TID. Events on an unknown thread are written on threads with IDs from 1<<30 on. The P is
// Event.P if that is known and less than 4096. Otherwise the Writer assigns a P to a thread when the thread needs one. If
// all Ps are in use by running goroutines and WriterOptions.Procs is set, one of these goroutines must have entered a
// system call, and the Writer takes its P. If WriterOptions.Procs is not set, the Writer adds a P. ProcsChange events
// record the number of Ps seen so far.
//
// These kinds of events need explanation:
//
//   - GoStatus is written as the status of the goroutine. If the goroutine is running or in a system call, the status is
//     written at its next event, on the thread of that event. From raw.Go123 on, the status has a stack, which ends with
//     the start function of the goroutine.
//   - GoCreate has a stack of one frame for the new goroutine, its start function.
//   - GoBlock has the reason Event.TraceReason, or if that is empty, the tracer's equivalent of Event.Reason. A coroutine
//     that switches to another one blocks with the reason "coroutine", after it has unblocked the other one.
//   - GoUnblock is written on the thread that runs goroutine Event.By. If By is 0 or is not running, it is written on a
//     thread without a goroutine.
//   - GoSyscallEnd leaves the goroutine runnable and without a P if the next event of the goroutine is a GoStart.
//     Otherwise it leaves the goroutine running.
//   - GCBegin, GCEnd, STWBegin and STWEnd require a running goroutine. If the goroutine of the event is not observed,
//     it is shown as running at that moment. If the event has no goroutine, any running goroutine is used, or if none
//     is running, one with the name "loupe".
//   - GCMarkAssistBegin and GCMarkAssistEnd require that goroutine Event.G runs. An end without a begin is skipped.
//   - ChanMake, ChanSend, ChanReceive, ChanClose, Select, SemAcquire and SemRelease are written as runtime/trace log
//     messages. The category is the name of the kind. The message is Event.Object in hexadecimal and Event.Value in
//     decimal, separated by a space, without those that are 0: "0xc000012345 16".
//   - AllocBytes and AllocObjects are written as log messages of the category "loupe", such as "AllocBytes 1048576". A
//     Reader returns these as the original kinds.
//   - Exec is written as a log message, and ends all goroutines and tasks.
//
// Times in the trace are nanoseconds since the Unix epoch, and from raw.Go125 on the trace says so. The times of CPU
// profiler samples are accurate to about 256 ns because of the way readers calculate them.
//
// As in traces of the Go runtime, stacks do not contain the outermost frame runtime.goexit. Each pair of function and
// line has a unique program counter, which is not an address in the program.
//
// Streams that contain only long waits (loupe.Options.MinBlock) make poor traces. Such a wait is reported when it ends,
// but times in a trace cannot go back, so the wait is written without its duration.
package trace

// This package contains the public types and their documentation. The packages in trace/internal do the work. Each of them
// imports only packages above it in this list:
//
//	problem     the problems that a trace can have
//	memory      the limit for reading, and estimates of the memory that the parts of a trace use
//	idtable     maps the IDs of a trace to values
//	generation  splits a trace into generations: batches, strings, stacks, samples, clocks
//	order       the model of the scheduler, which determines the next event
//	reader      converts a trace to events of package event, for Reader
//	tracev1     reads and checks traces from before Go 1.22
//	writer      converts events to a trace, for Writer; imports none of the others
//
// Types with fields or methods are declared here and not as aliases, so that go doc shows all of them.
