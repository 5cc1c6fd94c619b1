// Package tracefile does what `loupe tracefile` does with execution-trace files: it opens them, makes text of them and
// back, counts what is in them, chooses parts, and writes them again, alone or together, in Go's format and in others.
//
// Its central types are Input, a file that is read, Output, a file that is written, and Sink, a form in which events are
// written. Events go from package trace, which reads the files, through a Selection to a Sink:
//
//	Input -> trace.Reader -> Selection -> Sink (Go trace, Perfetto, Chrome, CSV, pprof) -> Output
//	                      -> Stat -> Summary, which package report prints
//
// Everything streams. What is kept is what trace.Reader keeps, which is two generations of a trace (a trace of before Go
// 1.22 as a whole), and something for each goroutine that is alive.
package tracefile
