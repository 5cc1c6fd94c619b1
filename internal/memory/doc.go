// Package memory interprets a reading of a process's memory (event.Memory): which limit applies, how much of the resident
// memory Go explains, and what looks wrong.
//
// Its results are a sentence, [Verdict], and [Findings] with their evidence in numbers. Readings come from package loupe, and
// package report prints the results.
package memory
