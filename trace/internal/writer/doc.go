// Package writer converts events of package event to an execution trace while they arrive. The documentation of package
// trace says what a trace contains for each kind of event.
//
// The central type is [Writer], of which trace.Writer is the public form. A Writer follows the model of the scheduler that
// readers of the trace have (goroutines, threads, Ps), and adds what is missing so that each event fits. It encodes the
// events into one open batch for each thread, and the strings and stacks into tables, and writes them to the underlying
// io.Writer generation by generation.
package writer
