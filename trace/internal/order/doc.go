// Package order determines an order in which the events of a generation can have happened.
//
// The central type is [Model], a model of the scheduler. It takes the generations that package generation has read, decodes
// the events of their threads, and returns them one by one. A [Cursor] reads the events of one thread. The model tracks the
// state of each goroutine, P and thread, and reports events that do not fit the state to a problem.Judge.
package order
