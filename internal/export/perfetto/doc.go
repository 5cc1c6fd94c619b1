// Package perfetto writes events as a Perfetto trace. Such a trace can be viewed at ui.perfetto.dev and queried with
// SQL in Perfetto's trace processor.
//
// The central type is [Writer]. Package timeline decides what is drawn, and this package encodes it as the protobuf
// messages of Perfetto's public schema (schema.go lists the files). Each goroutine has a track, and the tracks are
// grouped below the process. The category of a slice is the state of the goroutine, so the time by state is
//
//	select category, sum(dur) from slice group by category
//
// Stacks are interned callstacks (TrackEvent.callstack_iid). From version 53 (2025) on, the UI shows the stack of the
// selected slice, and a flame graph of all stacks in the selected area.
//
// # Streaming
//
// Names, stacks and frames are written once and then referenced by number. If there are too many of them to keep, the
// incremental state is cleared and numbering starts again, so their memory is bounded. All other memory is that of
// package timeline. A truncated file is a valid trace up to its last complete packet.
//
// # Time
//
// Times of packets are nanoseconds since the first event, on the clock that Perfetto reserves for use within a file. The
// first packet maps the beginning of this clock to REALTIME, so that the UI can show dates.
package perfetto
