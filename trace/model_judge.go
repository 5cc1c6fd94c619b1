package trace

import "fmt"

// A modelJudge takes the problems that are found in a trace.
type modelJudge struct {
	// list has the problems when the work goes on in spite of them; nil when it ends at the first Error.
	list *validList
	// failed is the first Error, if there is no list.
	failed *Problem
	// unsure is set while parts are missing that were unreadable, and told as such. What does not fit then is no finding.
	unsure bool
}

// A modelPlace is where something is in a trace.
type modelPlace struct {
	offset     int64
	generation uint64
	batch      int
	thread     uint64
	event      int
	cursor     *modelCursor // knows the event's number; nil when event has it
}

// add reports a problem. format and args make its text.
func (j *modelJudge) add(severity Severity, code Code, at modelPlace, format string, args ...any) {
	if j.list == nil {
		if severity == Error && j.failed == nil {
			j.failed = modelProblem(severity, code, at, format, args)
		}
		return
	}
	if j.list.count(severity, code) {
		j.list.keep(modelProblem(severity, code, at, format, args))
	}
}

// addUnlessUnsure reports a problem that may be the consequence of parts that are missing.
func (j *modelJudge) addUnlessUnsure(severity Severity, code Code, at modelPlace, format string, args ...any) {
	if j.unsure && j.list != nil {
		j.list.unchecked++
		return
	}
	j.add(severity, code, at, format, args...)
}

// goesOn reports whether the work goes on after what was reported.
func (j *modelJudge) goesOn() bool { return j.failed == nil }

func modelProblem(severity Severity, code Code, at modelPlace, format string, args []any) *Problem {
	p := &Problem{Code: code, Severity: severity, Offset: at.offset, Generation: at.generation, Batch: at.batch,
		Thread: int64(at.thread), Event: at.event, Text: fmt.Sprintf(format, args...)}
	if p.Thread < 0 {
		p.Thread = -1 // modelNone, or what is no ID of a thread
	}
	if at.cursor != nil {
		p.Event = at.cursor.eventNumber()
	}
	return p
}

// modelNone is the ID that stands for no thread, P or goroutine.
const modelNone = ^uint64(0)
