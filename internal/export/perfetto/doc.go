// Package perfetto writes events as a Perfetto trace, which ui.perfetto.dev shows and Perfetto's trace processor answers
// SQL queries about.
//
// The central type is Writer. What is drawn is decided by package timeline; here it gets its encoding, the protobuf
// messages of Perfetto's public schema (schema.go says which files). There is a track for each goroutine, grouped below
// the process; its slices have the state as their category, so that time by state is
//
//	select category, sum(dur) from slice group by category
//
// Stacks are interned callstacks (TrackEvent.callstack_iid). From version 53 on (2025) the UI shows the one of the slice that
// is selected, and a flame graph of all in the area that is selected.
//
// # Streaming
//
// Names, stacks and frames are written once and then known by number. When too many have come to keep, the incremental
// state is cleared and numbering goes on, so the memory for them is bounded; what else is kept is what package timeline
// keeps. A file that ends early is a valid trace up to its last whole packet.
//
// # Time
//
// Packets have nanoseconds since the first event, by the clock that Perfetto leaves to a file. The first packet says which
// REALTIME its beginning is, so that the UI can show dates.
package perfetto
