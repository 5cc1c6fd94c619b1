// Package report formats the results of Loupe for people and for programs: goroutine lists, process tables, system
// checks, comparisons and live events, as text for a terminal and as JSON.
//
// Its functions take complete results (event.Snapshot, census.Comparison, checkup.Report, event.Event) and a writer. They
// do not inspect processes themselves. The names of JSON fields are a stable interface for scripts. Everything that comes
// from a target is escaped before it is written.
package report
