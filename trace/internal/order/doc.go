// Package order puts the events of a generation into the order in which they can have happened.
//
// The central type is [Model], a model of the scheduler. It takes the generations that package generation has read, decodes
// the events of their threads, and returns the events one by one. A [Cursor] is the events of one thread. The model follows
// what each goroutine, P and thread does, and reports what does not fit to a problem.Judge.
package order
