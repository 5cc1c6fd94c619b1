package problem

import "fmt"

// A Judge takes the problems that are found in a trace.
type Judge struct {
	// List has the problems when the work goes on in spite of them; nil when it ends at the first Error.
	List *List
	// Failed is the first Error, if there is no list.
	Failed *Problem
	// Unsure is set while parts are missing that were unreadable, and told as such. What does not fit then is no finding.
	Unsure bool
}

// A Place is where something is in a trace.
type Place struct {
	Offset     int64
	Generation uint64
	Batch      int
	Thread     uint64
	Event      int
	// Counter knows the event's number; nil if Event has it.
	Counter EventCounter
}

// An EventCounter counts the events of a batch up to one of them. It is asked for problems that are kept only.
type EventCounter interface{ EventNumber() int }

// Add reports a problem. format and args make its text.
func (j *Judge) Add(severity Severity, code Code, at Place, format string, args ...any) {
	if j.List == nil {
		if severity == Error && j.Failed == nil {
			j.Failed = newProblem(severity, code, at, format, args)
		}
		return
	}
	if j.List.count(severity, code) {
		j.List.keep(newProblem(severity, code, at, format, args))
	}
}

// AddUnlessUnsure reports a problem that may be the consequence of parts that are missing.
func (j *Judge) AddUnlessUnsure(severity Severity, code Code, at Place, format string, args ...any) {
	if j.Unsure && j.List != nil {
		j.List.Unchecked++
		return
	}
	j.Add(severity, code, at, format, args...)
}

// GoesOn reports whether the work goes on after what was reported.
func (j *Judge) GoesOn() bool { return j.Failed == nil }

func newProblem(severity Severity, code Code, at Place, format string, args []any) *Problem {
	p := &Problem{Code: code, Severity: severity, Offset: at.Offset, Generation: at.Generation, Batch: at.Batch,
		Thread: int64(at.Thread), Event: at.Event, Text: fmt.Sprintf(format, args...)}
	if p.Thread < 0 {
		p.Thread = -1 // stands for no thread, or no ID of a thread
	}
	if at.Counter != nil {
		p.Event = at.Counter.EventNumber()
	}
	return p
}
