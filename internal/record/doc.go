// Package record writes the events of a live program to files that viewers can open: either all events, or only the most
// recent ones.
//
// [Write] passes all events to an export.Sink as they arrive. A [Flight] keeps the most recent events in memory, as generations of a Go
// execution trace, until they are requested. A [Trigger] watches the events for a condition that makes them worth
// keeping.
package record
