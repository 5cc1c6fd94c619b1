// Package memory bounds the memory that reading a trace takes. It has the limit, the error for a trace that does not fit,
// and estimates of what the parts of a trace take. The code that reads a trace adds the estimates up, and returns an
// [Error] when the sum exceeds the limit.
package memory
