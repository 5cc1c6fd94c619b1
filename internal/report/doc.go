// Package report writes what Loupe has found for people and for programs: goroutine lists, process tables, check-ups,
// comparisons and live events, as text for a terminal and as JSON.
//
// Its functions take finished findings (goproc.Snapshot, census.Comparison, doctor.Report, event.Event) and a writer; they
// look at nothing themselves. The JSON field names are a contract that scripts rely on. Everything that was read from a
// target is escaped before it is written.
package report
