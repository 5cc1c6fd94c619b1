// Package loupe observes running Go programs from the outside. It reports what their goroutines do, what they wait for
// and what creates them, as a stream of events or as a snapshot. The target is neither rebuilt nor restarted.
//
// [Attach] starts a [Session] for a process, and [Session.Events] yields the events, which package
// [github.com/loupe-go/loupe/event] defines. [Session.Record] writes them to a file for go tool trace and other viewers. A
// [FlightRecorder] keeps the newest of them in memory until a condition holds. [Session.Profile] computes profiles for go tool
// pprof. [Record] and [Profile] do the same for events from other sources. Package [github.com/loupe-go/loupe/live] turns the
// events into the current state of the program: the number of goroutines by creation site and by wait reason, growth,
// contention, and scheduler latency.
//
// [Session.Allocs] returns what the program allocates, exactly or estimated from samples, if Options.Allocs is set; package
// [github.com/loupe-go/loupe/allocs] groups it.
//
// With Options.Spans, a session makes a span of each request that the program serves or sends, and passes it to a function; package
// [github.com/loupe-go/loupe/spans] defines them. A span says where the time of its request went.
//
// [OpenProcess] opens a process for reading. [Process.Snapshot] returns its goroutines with their stacks, states and wait
// times, and package [github.com/loupe-go/loupe/census] groups them and finds those that look leaked. [Process.WallProfile]
// computes from repeated snapshots where goroutines spend their time, [Process.CPUProfile] what they use processor time for.
// [Process.Memory] returns the memory statistics of the runtime and of the kernel. [Processes] and [Find] find the processes.
//
// [CheckMachine] and [CheckProcess] report what can be observed, and the reason and the remedy for what cannot. Use
// [errors.Is] to match an error with the package's errors, such as [ErrPermission]. [Advise] returns what a user can do about it.
//
// There are two engines. [EngineUprobe] uses eBPF and never stops the target. [EngineInline] patches the target with
// ptrace, and stops it for a few milliseconds when the session begins and when it ends.
package loupe
