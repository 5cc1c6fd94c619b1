package trace

import (
	"bytes"
	"math"
	"testing"

	"github.com/loupe-go/loupe/trace/raw"
)

// A mutation is one change of a real trace, and what must be found.
type mutation struct {
	name string
	code Code
	// warning is set if readers accept the trace.
	warning bool
	// more is how many problems of the code there are beside the first.
	more int
	// change makes the change and returns the index of the event at which the problem is.
	change func(e *traceEdit) int
	// release is that of the trace; empty means 1.26.11.
	release string
}

func TestValidateMutations(t *testing.T) {
	var all []mutation
	all = append(all, framingMutations...)
	all = append(all, tableMutations...)
	all = append(all, goroutineMutations...)
	all = append(all, procMutations...)
	all = append(all, rangeMutations...)
	seen := map[Code]bool{}
	for _, m := range all {
		seen[m.code] = true
		t.Run(m.name, func(t *testing.T) {
			release := m.release
			if release == "" {
				release = "1.26.11"
			}
			e := newTraceEdit(t, tinyTrace(t, release))
			at := m.change(e)
			data, offsets := e.wire()
			checkMutation(t, &m, e, data, at, offsets)
		})
	}
	for _, code := range []Code{CodeFraming, CodeTruncated, CodeVersion} { // tested elsewhere in this file
		seen[code] = true
	}
	seen[CodeStuck], seen[CodeRefused] = true, true // tested in other files
	for _, code := range allCodes {
		if !seen[code] {
			t.Errorf("no mutation for %q", code)
		}
	}
}

// allCodes are the codes that exist.
var allCodes = []Code{CodeFraming, CodeTruncated, CodeBatchSize, CodeGeneration, CodeGenerationGap, CodeNoEnd, CodeNoFrequency,
	CodeNoClock, CodeDuplicateSync, CodeBadSync, CodeVersion, CodeBadExperimental, CodeUnknownEvent, CodeOverflow, CodeCutOff,
	CodeZeroID, CodeDuplicateString, CodeDuplicateStack, CodeLongString, CodeLongStack, CodeUnknownString, CodeUnknownStack,
	CodeFrameConflict, CodeTimeOrder, CodeTimeRange, CodeBadStatus, CodeStuck, CodeNoThread, CodeNoProc, CodeNoGoroutine,
	CodeSecondProc, CodeSecondGoroutine, CodeProcOnTwo, CodeProcStatus, CodeGoStatus, CodeUnknownProc, CodeUnknownGo, CodeEndedGo,
	CodeGoExists, CodeNoStatus, CodeContradiction, CodeWrongThread, CodeProcSequence, CodeGoSequence, CodeGCSequence,
	CodeGCPairing, CodeSTWPairing, CodeSweepPairing, CodeAssistPairing, CodeTaskExists, CodeTaskNotBegun, CodeRegionMismatch,
	CodeRegionNotBegun, CodeRefused}

// checkMutation verifies that exactly what was changed is reported, at its place, and that the toolchain's reader agrees.
func checkMutation(t *testing.T, m *mutation, e *traceEdit, data []byte, at int, offsets []int64) {
	t.Helper()
	report, err := Validate(bytes.NewReader(data), ValidateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	severity := Error
	if m.warning {
		severity = Warning
	}
	if len(report.Problems) != 1+m.more || report.Counts[m.code] != 1+m.more {
		for i := range report.Problems {
			p := &report.Problems[i]
			t.Logf("%v %s: %v", p.Severity, p.Code, p)
		}
		t.Fatalf("%d problems, want %d of %q; %v", len(report.Problems), 1+m.more, m.code, report)
	}
	p := &report.Problems[0]
	if p.Severity != severity || p.Offset != offsets[at] {
		t.Errorf("%v at %v, want %v at offset %d", p.Severity, p, severity, offsets[at])
	}
	if ev := &e.events[at]; p.Event >= 0 {
		batch := e.batchOf(at)
		within := at - batch - 1
		if p.Event != within || p.Batch != numberOf(e, batch) || p.Generation != e.events[batch].Args[0] {
			t.Errorf("%v, want generation %d, batch %d, event %d", p, e.events[batch].Args[0], numberOf(e, batch), within)
		}
		if spec := ev.Spec(); spec.Timed && uint64(p.Thread) != e.events[batch].Args[1] {
			t.Errorf("%v, want M %d", p, int64(e.events[batch].Args[1]))
		}
	}
	refused := refusal(data)
	if (refused != nil) != (severity == Error) {
		t.Errorf("%v, but the toolchain's reader says %v", p, refused)
	}
}

// numberOf returns the number of a batch in a trace.
func numberOf(e *traceEdit, batch int) int {
	n := 0
	for i := range e.events[:batch] {
		if t := e.events[i].Type; t == raw.EvEventBatch || t == raw.EvExperimentalBatch {
			n++
		}
	}
	return n
}

var framingMutations = []mutation{
	{name: "a batch of more than 64 KiB", code: CodeBatchSize, change: func(e *traceEdit) int {
		var events []raw.Event
		for range 66_000 / 3 {
			events = append(events, e.ev(raw.EvSpanFree, 1))
		}
		return e.newBatch(4242, events...)
	}},
	{name: "generation 0", code: CodeGeneration, change: func(e *traceEdit) int {
		i := e.find(0, raw.EvEventBatch, func(i int, ev *raw.Event) bool { return e.events[i+1].Type == raw.EvStrings })
		e.events[i].Args[0] = 0
		return i
	}},
	{name: "a generation too high", code: CodeGeneration, change: func(e *traceEdit) int {
		i := e.find(3, raw.EvEventBatch, nil)
		e.events[i].Args[0] = 77
		return i
	}},
	{name: "a generation too low", code: CodeGeneration, change: func(e *traceEdit) int {
		i := e.last(raw.EvEventBatch, nil)
		e.events[i].Args[0] = 1
		return i
	}},
	{name: "a generation too low in Go 1.23", code: CodeGeneration, release: "1.23.12", change: func(e *traceEdit) int {
		i := e.last(raw.EvEventBatch, nil)
		e.events[i].Args[0] = 1
		return i
	}},
	{name: "a generation is left out", code: CodeGenerationGap, warning: true, change: func(e *traceEdit) int {
		first := -1
		for i := range e.events {
			if ev := &e.events[i]; ev.Type == raw.EvEventBatch && ev.Args[0] == 2 {
				if ev.Args[0] = 3; first < 0 {
					first = i
				}
			}
		}
		return first
	}},
	{name: "no end of a generation", code: CodeNoEnd, change: func(e *traceEdit) int {
		i := e.find(0, raw.EvEndOfGeneration, nil)
		e.remove(i)
		return i
	}},
	{name: "no frequency", code: CodeNoFrequency, change: func(e *traceEdit) int {
		e.remove(e.find(0, raw.EvFrequency, nil))
		return 0
	}},
	{name: "no clock snapshot", code: CodeNoClock, change: func(e *traceEdit) int {
		e.remove(e.find(0, raw.EvClockSnapshot, nil))
		return 0
	}},
	{name: "second frequency", code: CodeDuplicateSync, change: func(e *traceEdit) int {
		i := e.find(0, raw.EvFrequency, nil)
		e.insert(i+1, e.events[i])
		return i + 1
	}},
	{name: "second clock snapshot", code: CodeDuplicateSync, change: func(e *traceEdit) int {
		i := e.find(0, raw.EvClockSnapshot, nil)
		e.insert(i+1, *e.events[i].Clone())
		return i + 1
	}},
	{name: "too many nanoseconds", code: CodeBadSync, warning: true, change: func(e *traceEdit) int {
		i := e.last(raw.EvClockSnapshot, nil)
		e.events[i].Args[3] = 2e9
		return i
	}},
	{name: "unknown experiment", code: CodeBadExperimental, change: func(e *traceEdit) int {
		i := e.find(3, raw.EvEventBatch, nil)
		e.insert(i, e.ev(raw.EvExperimentalBatch, 7, 1, 5, e.events[i].Args[2]))
		return i
	}},
	{name: "unexpected content of an experiment", code: CodeBadExperimental, warning: true, change: func(e *traceEdit) int {
		i := e.find(3, raw.EvEventBatch, nil)
		ev := e.ev(raw.EvExperimentalBatch, 1, 1, 5, e.events[i].Args[2])
		ev.Data = []byte{1, 2, 3}
		e.insert(i, ev)
		return i
	}},
	{name: "an event type that does not exist", code: CodeUnknownEvent, change: func(e *traceEdit) int {
		i := e.last(raw.EvHeapAlloc, nil)
		e.replace(i, 200, 1, 2)
		return i
	}},
	{name: "a string among stacks", code: CodeUnknownEvent, change: func(e *traceEdit) int {
		i := e.last(raw.EvStack, nil)
		e.insert(i+1, e.ev(raw.EvString, 4000))
		return i + 1
	}},
	{name: "a frequency among events", code: CodeUnknownEvent, change: func(e *traceEdit) int {
		i := e.last(raw.EvHeapAlloc, nil)
		e.insert(i, e.ev(raw.EvFrequency, 1e9))
		return i
	}},
	{name: "a number of 70 bits", code: CodeOverflow, change: func(e *traceEdit) int {
		i := e.last(raw.EvHeapAlloc, nil)
		e.replace(i, append([]byte{byte(raw.EvHeapAlloc), 1}, bytes.Repeat([]byte{0xff}, 10)...)...)
		return i
	}},
	{name: "an event is cut off", code: CodeCutOff, change: func(e *traceEdit) int {
		i := e.last(raw.EvHeapAlloc, nil)
		e.split(i + 1)
		b := e.encoded(i)
		e.replace(i, b[:len(b)-1]...)
		return i
	}},
	{name: "a time that does not increase", code: CodeTimeOrder, warning: true, change: func(e *traceEdit) int {
		i := e.last(raw.EvHeapAlloc, nil)
		e.events[i].Args[0] = 0
		return i
	}},
	{name: "a batch that begins within the one before", code: CodeTimeOrder, warning: true, change: func(e *traceEdit) int {
		first := e.newBatch(4242, e.ev(raw.EvSpanFree, 1))
		second := e.newBatch(4242, e.ev(raw.EvSpanFree, 1), e.ev(raw.EvSpanFree, 1))
		e.events[second].Args[2] = e.events[first].Args[2]
		return second + 1
	}},
	{name: "a time that cannot be", code: CodeTimeRange, warning: true, change: func(e *traceEdit) int {
		i := e.newBatch(4242, e.ev(raw.EvSpanFree, 1), e.ev(raw.EvSpanFree, 2))
		e.events[i+2].Args[0] = 1 << 62
		return i + 2
	}},
}

// split makes the events of a batch from one on another batch of the same thread.
func (e *traceEdit) split(at int) {
	batch := e.batchOf(at)
	header := *e.events[batch].Clone()
	for i := batch + 1; i < at; i++ {
		header.Args[2] += e.events[i].Args[0]
	}
	e.insert(at, header)
}

var tableMutations = []mutation{
	{name: "string 0", code: CodeZeroID, change: func(e *traceEdit) int {
		i := e.last(raw.EvString, nil)
		e.insert(i+1, e.ev(raw.EvString, 0))
		return i + 1
	}},
	{name: "stack 0", code: CodeZeroID, change: func(e *traceEdit) int {
		i := e.last(raw.EvStack, nil)
		e.insert(i+1, e.ev(raw.EvStack, 0, 0))
		return i + 1
	}},
	{name: "goroutine 0", code: CodeZeroID, warning: true, change: func(e *traceEdit) int {
		i := e.last(raw.EvGoCreate, nil)
		e.insert(i, e.ev(raw.EvGoCreate, 0, 0, 0))
		return i
	}},
	{name: "a string twice", code: CodeDuplicateString, change: func(e *traceEdit) int {
		i := e.last(raw.EvString, nil)
		e.insert(i+1, *e.events[i].Clone())
		return i + 1
	}},
	{name: "a stack twice", code: CodeDuplicateStack, change: func(e *traceEdit) int {
		i := e.last(raw.EvStack, nil)
		e.insert(i+1, *e.events[i].Clone())
		return i + 1
	}},
	{name: "a long string", code: CodeLongString, change: func(e *traceEdit) int {
		i := e.last(raw.EvString, nil)
		e.events[i].Data = make([]byte, 1025)
		return i
	}},
	{name: "a long stack", code: CodeLongStack, change: func(e *traceEdit) int {
		i := e.last(raw.EvStack, nil)
		for len(e.events[i].Frames) < 129 {
			e.events[i].Frames = append(e.events[i].Frames, e.events[i].Frames[0])
		}
		e.events[i].Args[1] = 129
		return i
	}},
	{name: "a string that does not exist", code: CodeUnknownString, change: func(e *traceEdit) int {
		i := e.last(raw.EvGoBlock, nil)
		e.events[i].Args[1] = 9999
		return i
	}},
	{name: "a frame with a string that does not exist", code: CodeUnknownString, change: func(e *traceEdit) int {
		i := e.last(raw.EvStack, nil)
		e.events[i].Frames = append(e.events[i].Frames, raw.Frame{PC: 1, Func: 9999, Line: 1})
		e.events[i].Args[1]++
		return i
	}},
	{name: "a stack that does not exist", code: CodeUnknownStack, change: func(e *traceEdit) int {
		i := e.last(raw.EvGoBlock, nil)
		e.events[i].Args[2] = 9999
		return i
	}},
	{name: "a new goroutine's stack does not exist", code: CodeUnknownStack, change: func(e *traceEdit) int {
		i := e.last(raw.EvGoCreate, nil)
		e.events[i].Args[2] = math.MaxUint64
		return i
	}},
	{name: "a sample with a stack that does not exist", code: CodeUnknownStack, change: func(e *traceEdit) int {
		i := e.last(raw.EvCPUSample, nil)
		e.events[i].Args[4] = 9999
		return i
	}},
	{name: "a program counter with two lines", code: CodeFrameConflict, warning: true, change: func(e *traceEdit) int {
		i := e.last(raw.EvStack, nil)
		f := e.events[i].Frames[0]
		f.Line++
		stack := e.ev(raw.EvStack, 5000, 1)
		stack.Frames = []raw.Frame{f}
		e.insert(i+1, stack)
		return i + 1
	}},
}

func TestValidateFraming(t *testing.T) {
	for _, release := range []string{"1.22.12", "1.25.14", "1.26.11"} {
		e := newTraceEdit(t, tinyTrace(t, release))
		data, offsets := e.wire()
		batch := e.find(3, raw.EvEventBatch, nil)
		t.Run("a byte between batches in Go "+release, func(t *testing.T) {
			at := offsets[batch]
			damaged := append(append(bytes.Clone(data[:at]), 99), data[at:]...)
			checkFirst(t, damaged, CodeFraming, at)
		})
		t.Run("a trace that ends early in Go "+release, func(t *testing.T) {
			last := e.last(raw.EvEventBatch, nil)
			checkFirst(t, data[:offsets[last]+20], CodeTruncated, offsets[last])
		})
		t.Run("a trace that ends within a header in Go "+release, func(t *testing.T) {
			last := e.last(raw.EvEventBatch, nil)
			checkFirst(t, data[:offsets[last]+3], CodeTruncated, offsets[last])
		})
	}
	t.Run("events of a later version", func(t *testing.T) {
		data := tinyTrace(t, "1.23.12")
		copy(data, "go 1.22")
		report, err := Validate(bytes.NewReader(data), ValidateOptions{})
		if err != nil || report.Errors > 0 || report.Counts[CodeVersion] == 0 || len(report.Counts) != 1 {
			t.Errorf("%v, %v", report, err)
		}
		if err := refusal(data); err != nil {
			t.Error(err)
		}
	})
}

// checkFirst verifies the first error of a trace.
func checkFirst(t *testing.T, data []byte, code Code, offset int64) {
	t.Helper()
	report, err := Validate(bytes.NewReader(data), ValidateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Errors == 0 || report.Errors > 2 {
		t.Fatalf("%v: %v", report, report.Problems)
	}
	if p := &report.Problems[0]; p.Code != code || p.Offset != offset || p.Severity != Error {
		t.Errorf("%s %v, want %s at offset %d", p.Code, p, code, offset)
	}
	if refusal(data) == nil {
		t.Error("the toolchain's reader accepts it")
	}
}
