// Package census makes sense of goroutine snapshots: which goroutines match a question, which are alike, what they are
// doing in plain words, and how two snapshots of the same process differ.
//
// Its central type is Group, a set of goroutines at the same place. The comparison of two snapshots is Comparison; what
// in it looks like a leak is a Suspect. The package reads goproc snapshots and prints nothing: package report renders
// what it finds.
package census
