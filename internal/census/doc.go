// Package census analyzes goroutine snapshots. It selects the goroutines that match a filter, groups similar goroutines,
// describes what they are doing, and compares two snapshots of the same process.
//
// The central type is [Group], a set of goroutines at the same place. A [Comparison] is the difference between two
// snapshots; a group in it that looks like a leak is a [Suspect]. The package reads the snapshots of package goproc and
// prints nothing: package report formats the results.
package census
