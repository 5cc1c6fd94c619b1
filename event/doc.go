// Package event holds the words that all parts of Loupe share: what a frame, a stack and a goroutine state are.
//
// Every source (a live process, a rebuilt program, an execution trace on disk) speaks these words, and every view reads
// nothing else, so what is learnt about one source holds for all of them. The names are those of the Go runtime and of
// its execution tracer. The package imports nothing of Loupe's own.
package event
