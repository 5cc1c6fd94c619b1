// Package timeline converts events to what trace viewers draw: tracks with slices, instants, flows and counters.
//
// The central type is [Timeline]. It takes one event.Event after the other, from any source, and calls the methods of a
// [Sink], which writes the result in a specific format (packages perfetto and chrome). The Timeline keeps track of the
// slices that are open on each track, so that a Sink does not have to.
//
// # Tracks
//
// Each goroutine has a track, which is announced at its first event. The track is a sequence of slices, one for each
// state of the goroutine: "running", "runnable", "syscall", or for a wait its reason ("chan receive"). Instants on the
// track mark the actions of the goroutine, such as creating or waking another goroutine, using a channel, or writing a
// log message. The runtime/trace regions of a goroutine have a separate track, because they overlap its states. There
// are further tracks for the garbage collector, for STW pauses, for lost events, and for each runtime/trace task. With
// Options.Threads, each thread has a track with a slice for each goroutine that ran on it.
//
// On every track, slices are properly nested and times never decrease, whatever the events say. An event that is earlier
// than the last time on its track is drawn at that time. Times before the first event are drawn at the first event.
//
// # Flows
//
// A flow connects the action of a goroutine (the instant of a GoCreate or GoUnblock on its track) with the slice
// "running" of the other goroutine that is the consequence.
//
// # Missing events
//
// If an event does not fit the current state, an event was missed. The open slice then ends with a note (see [Ending]).
// After a Lost event:
//
//   - A slice whose end fits continues to that end, with the note that it is uncertain, because other things may have
//     happened in between.
//   - A slice whose end does not fit is cut where the missing events begin, and a slice "unknown" fills the gap.
//   - The track of lost events has a slice for the time in which events are missing, with an instant that contains their
//     number.
//
// A state is only drawn if the observed kinds (Options.Kinds) include the events that end it.
//
// # Memory
//
// A Timeline stores the live goroutines, about 120 bytes each, the threads, and the open tasks and regions. A goroutine
// whose end was lost is stored until Close.
package timeline
