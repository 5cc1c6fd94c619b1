// Package census analyzes goroutine snapshots. It selects the goroutines that match a [Filter], puts similar goroutines
// into a [Group], describes what they are doing, and compares two snapshots of the same process.
//
// A [Comparison] of two snapshots shows which groups of goroutines have grown. A group that looks like a leak is a
// [Suspect]: its goroutines wait for something that only another goroutine can provide, those of the first snapshot are
// still waiting, and more have joined them.
//
// Snapshots are taken by [github.com/loupe-go/loupe.Process.Snapshot]. The texts in the results are from the process, such
// as names and labels, and are not escaped.
package census
