// Package timeline turns events into what viewers of traces draw: tracks with slices, instants, flows and counters.
//
// The central type is Timeline. It takes one event.Event after the other, of any source, and calls a Sink, which writes
// them in some format (packages perfetto and chrome). It knows which slice is open on which track, so no Sink has to.
//
// # Tracks
//
// Every goroutine has a track, announced at its first event. On it follow one another the slices of its states:
// "running", "runnable", "syscall", and for a wait its reason ("chan receive"). Instants on it say what the goroutine did:
// created or woke another, used a channel, logged. Regions of runtime/trace are on a track of their own beside it, since
// they overlap states. Other tracks are for the garbage collector, for stops of the world, for lost events, for each task
// of runtime/trace, and with Options.Threads for each thread, with a slice for each goroutine that ran there.
//
// On every track slices are properly nested and times never go backwards, whatever the events say: an event that is
// earlier than what its track has already is drawn there. Times before the first event are drawn at the first event.
//
// # Flows
//
// A flow leads from what another goroutine did (the instant of GoCreate or GoUnblock on its track) to the slice "running"
// that is its consequence.
//
// # What was not seen
//
// When an event does not fit the state before it, something was not seen, and the slice that is open ends with a note
// (see Ending). After a Lost event:
//
//   - a slice whose end fits goes on to that end, noted as uncertain: other things may have happened in between;
//   - one whose end does not fit is cut where events began to be missing, and a slice "unknown" fills the gap;
//   - the time over which events are missing is a slice on the track of lost events, with an instant that says how many.
//
// A state is drawn only when the observed kinds (Options.Kinds) contain the events that end it.
//
// # Memory
//
// What is kept is the goroutines that are alive, about 120 bytes each, the threads, and the tasks and regions that are
// open. A goroutine whose end was lost stays until Close.
package timeline
