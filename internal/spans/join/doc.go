// Package join makes request spans of what happens in a Go program.
//
// The packages beside it, one for each instrumented library, have sets of probes that report where an operation begins and
// ends, and on which goroutine. A [Tracker] joins that with the events of goroutines: it determines the parent of each span, and
// how the time of a request was spent. It does not depend on the source of the events.
//
// The central type is [Tracker].
package join
