//go:build !go1.25

package glti

const traceLimits = "one to two seconds late; while callbacks of events are registered, trace.Start of the application returns an error, unless its trace started " +
	"first: then events of that time are not delivered"

// newTraceSource returns a source that starts a trace.
func newTraceSource() traceSource { return &startedTrace{} }
