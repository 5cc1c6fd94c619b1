// Package record writes the events of a live program into files that viewers open, all of them or the last stretch.
//
// A Sink writes all events as they come. A Flight keeps the last stretch in memory, as generations of a Go execution
// trace, until somebody wants it. A Trigger watches the events for what is worth keeping.
package record
