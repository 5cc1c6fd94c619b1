package glti

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

// ErrUnavailable is wrapped by the errors of methods that are unavailable in this program.
var ErrUnavailable = errors.New("unavailable in this program")

// ErrNotBuilt is wrapped by the errors of methods that require a program built by `loupe go build`. It is an ErrUnavailable:
// errors.Is(ErrNotBuilt, ErrUnavailable) is true.
var ErrNotBuilt error = notBuiltError{}

type notBuiltError struct{}

func (notBuiltError) Error() string        { return "the program was not built by `loupe go build`" }
func (notBuiltError) Is(target error) bool { return target == ErrUnavailable }

// ErrClosed is returned by methods of an environment that was closed, or that [NewEnv] did not make.
var ErrClosed = errors.New("glti: the environment is closed, or NewEnv did not make it")

// Report is a problem that no result of a method can return.
type Report struct {
	// Agent is the name of the agent, "" if the problem concerns all.
	Agent string
	// Method is the name of the method whose callback or call has the problem, such as RegisterTraceEvGoCreate.
	Method string
	// Err says what happened. It is a [*PanicError] if a callback panicked.
	Err error
	// Lost is the number of events that were lost, 0 for other problems.
	Lost uint64
}

// String returns the report as one line without a line break.
func (r Report) String() string {
	text := "glti: "
	if r.Agent != "" {
		text += "agent " + r.Agent + ": "
	}
	if r.Method != "" {
		text += r.Method + ": "
	}
	return text + r.Err.Error()
}

// PanicError is the error of a callback that panicked. The callback is disabled.
type PanicError struct {
	Value any    // the value of the panic
	Stack []byte // the stack at the panic, as debug.Stack returns it
}

// Error returns what happened as one line.
func (e *PanicError) Error() string {
	return fmt.Sprintf("callback disabled: it panicked: %q", fmt.Sprint(e.Value))
}

var (
	reportHandler atomic.Pointer[func(Report)]
	reportedOnce  sync.Map // methods without an error result whose unavailability has been reported
)

// SetReportHandler sets the function that is called for each report, instead of the default, which writes one line to
// standard error. It is called on the goroutine on which the problem occurred. A nil function restores the default.
func SetReportHandler(f func(Report)) {
	if f == nil {
		reportHandler.Store(nil)
		return
	}
	reportHandler.Store(&f)
}

// report hands a report to the handler. A handler that panics does not end the program.
func report(r Report) {
	f := reportHandler.Load()
	if f == nil {
		fmt.Fprintln(os.Stderr, r)
		return
	}
	defer func() {
		if v := recover(); v != nil {
			fmt.Fprintf(os.Stderr, "%s (the report handler panicked: %q)\n", r, fmt.Sprint(v))
		}
	}()
	(*f)(r)
}

// reportUnavailable reports once that a method without an error result is unavailable.
func reportUnavailable(agent, method string, err error) {
	if _, dup := reportedOnce.LoadOrStore(agent+"."+method, true); !dup {
		report(Report{Agent: agent, Method: method, Err: err})
	}
}

// lost reports that events were lost, because buffers were full.
func lost(n uint64) {
	report(Report{Err: fmt.Errorf("events lost: %d: callbacks are slower than events", n), Lost: n})
}

// CallError is the error of a function that panicked when [GLTIEnv.ReflectCall] called it.
type CallError struct {
	Func  string // the name of the function
	Value any    // the value of the panic
	Stack []byte // the stack at the panic, as debug.Stack returns it
}

// Error returns what happened as one line.
func (e *CallError) Error() string {
	return fmt.Sprintf("glti: ReflectCall: %s panicked: %q", e.Func, fmt.Sprint(e.Value))
}

// Unwrap returns the value of the panic if it is an error.
func (e *CallError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
