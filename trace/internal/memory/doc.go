// Package memory limits the memory that reading a trace uses. It defines the limit, the error for a trace that exceeds it,
// and estimates of the memory that the parts of a trace use. The code that reads a trace adds up the estimates, and
// returns an [Error] when the sum exceeds the limit.
package memory
