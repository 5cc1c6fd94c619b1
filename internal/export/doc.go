// Package export is the registry of outputs: the formats in which events are written to a file, or sent to another program.
//
// The central types are [Sink], which takes the events of a stream one by one, and [Format], a row of the table of formats.
// The table has everything that commands need to offer a format: its name, its help and how to view a file. Events come
// from a live process (package record) or from an execution trace (package tracefile).
//
// A Sink can send events elsewhere instead of writing them to a file. Such a sink has its own goroutines and its own
// buffer, and Close ends them.
package export
