// Package tracefile implements `loupe tracefile`. It opens execution trace files, converts them to text and back,
// computes statistics, selects parts of them, and writes one or several of them in Go's format or in other formats.
//
// The central types are [Input], a file to read, and [Output], a file to write. Package trace reads the files, and the events
// pass through a [Selection] to an export.Sink, which writes them in one format:
//
//	Input -> trace.Reader -> Selection -> export.Sink -> Output
//	                      -> Stat -> Summary, which package report prints
//
// All operations stream their input. In memory are at most two generations of the trace (or the whole trace if it is from
// before Go 1.22), held by trace.Reader, and a small amount of data for each live goroutine.
package tracefile
