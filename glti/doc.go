// Package glti is the Go Tool Interface: what a monitoring agent inside a Go program uses to profile it, trace it, follow its
// goroutines and look up its symbols.
//
//	env := glti.NewEnv("my-agent")
//	defer env.Close()
//	err := env.Trace.RegisterTraceEvGoCreate(func(ts int64, gp interface{}) {
//		created.Add(1)
//	})
//
// The central type is [GLTIEnv], the environment of one agent. [TracingEnv] registers callbacks for the events of the runtime, and
// [ProfilerEnv] handlers for profiles. Several agents can be in a program. Each has an environment of its own, and removes its
// callbacks without an effect on the others.
//
// # Two kinds of programs
//
// A program that `loupe go build` has built contains hooks in its runtime. Any other program is a stock program. The same package
// works in both, but a stock program lacks the hooks: its events come from [runtime/trace], about a second late, and some methods
// are unavailable. An unavailable method returns an error that wraps [ErrUnavailable], or reports it (see [SetReportHandler]) if it
// has no error result. [Capabilities] lists for each method whether it is available, and what does not hold.
//
// # Classes of callbacks
//
// Not every place in the runtime permits a call of ordinary Go code. There are three classes. The documentation of each method
// states the class that its callback has at best; [Capabilities] states the class in this program.
//
//   - Class A: called synchronously, on the goroutine that the event is about or that caused it, at the boundary of the operation. The
//     callback may do anything that Go code may do: allocate, lock, use channels, block. Time is when the event happened.
//   - Class B: called synchronously inside the scheduler. Only a raw callback is possible, see [TracingEnv.HandleRaw]. Register methods
//     of this class deliver from a buffer as class C does.
//   - Class C: the runtime writes the event to a buffer, and a goroutine of this package calls the callback later. It may do anything
//     that Go code may do. Time is when the event happened; [Record.Late] is true.
//
// Every event of a stock program has class C.
//
// An agent that only wants to know how many events there are needs no callback: see [TracingEnv.CountEvent].
//
// A callback that panics is disabled and reported; the program continues. Events that the goroutines of this package cause are
// not delivered. A callback of class A is not called for events that the callback itself causes.
//
// # Times
//
// A time is in nanoseconds of the runtime's monotonic clock, as [Now] returns it. [Time] converts it to a [time.Time].
package glti
