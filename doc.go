// Package loupe observes running Go programs from the outside. It reports what their goroutines do, what they wait for
// and what creates them, as a stream of events. The target is neither rebuilt nor restarted.
//
// [Attach] starts a [Session] for a process, and [Session.Events] yields the events, which package
// [github.com/loupe-go/loupe/event] defines.
//
// There are two engines. [EngineUprobe] uses eBPF and never stops the target. [EngineInline] patches the target with
// ptrace, and stops it for a few milliseconds when the session begins and when it ends.
package loupe
