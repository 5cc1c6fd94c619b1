package tracev1

import (
	"bytes"
	"errors"
	"io"
	"math"

	"github.com/loupe-go/loupe/trace/internal/generation"
	"github.com/loupe-go/loupe/trace/internal/problem"
	"github.com/loupe-go/loupe/trace/raw"
)

// Limits of the toolchain's reader for traces of before Go 1.22: internal/trace/internal/tracev1/parser.go in the Go tree.
const (
	maxString = 1e6
	maxFrames = 1000
)

// Counts is how much of a trace was read.
type Counts struct {
	Bytes   int64
	Batches int
	Events  int64 // those that have a time
}

// Validate looks at a trace of before Go 1.22, from where its header ends, and adds the problems to list. The trace may
// take limit bytes of memory. The error is a memory.Error or that of the underlying reader.
func Validate(in *generation.Input, v raw.Version, limit int64, list *problem.List) (Counts, error) {
	input, err := readWhole(in, v, limit)
	o := &validator{version: v, judge: problem.Judge{List: list}, strings: map[uint64]bool{}, stacks: map[uint64]bool{}, frames: map[uint64]bool{}}
	o.counts.Bytes = int64(len(input.data))
	var syntax *raw.SyntaxError
	if err != nil && !errors.As(err, &syntax) {
		return o.counts, err // what cannot be read will be reported
	}
	data := input.data
	o.walk(data, o.table)
	o.walk(data, o.event)
	if !o.frequency && list.Errors == 0 {
		o.judge.Add(problem.Error, problem.NoFrequency, o.place(), "the trace has no Frequency")
	}
	if list.Errors == 0 {
		o.accept(input)
	}
	return o.counts, nil
}

// A validator looks at the structure of a trace of before Go 1.22.
type validator struct {
	version   raw.Version
	judge     problem.Judge
	counts    Counts
	strings   map[uint64]bool
	stacks    map[uint64]bool // true for those with frames
	frames    map[uint64]bool // program counters
	frequency bool

	// What walk has come to.
	offset int64
	batch  int
	index  int // of the event in the batch
}

func (o *validator) place() problem.Place {
	return problem.Place{Offset: o.offset, Batch: o.batch, Thread: generation.None, Event: o.index}
}

// walk calls f with each event, as far as they can be read. What cannot be read is reported the first time.
func (o *validator) walk(data []byte, f func(ev *raw.Event)) {
	r, err := raw.NewReader(bytes.NewReader(data))
	if err != nil {
		return // the header has been read before
	}
	o.batch, o.index = -1, -1
	var ev raw.Event
	for {
		o.offset = r.Offset()
		o.index++
		err := r.ReadEvent(&ev)
		if err == io.EOF {
			o.batch, o.index = -1, -1
			return
		}
		if err != nil {
			o.unreadable(err)
			return
		}
		if ev.Type == raw.EvV1Batch {
			o.batch++
			o.index = -1
		}
		f(&ev)
	}
}

// unreadable reports what is no event, once.
func (o *validator) unreadable(err error) {
	if o.judge.Unsure {
		return
	}
	o.judge.Unsure = true
	code := problem.Framing
	if errors.Is(err, io.ErrUnexpectedEOF) {
		code = problem.Truncated
	}
	var syntax *raw.SyntaxError
	if errors.As(err, &syntax) {
		err = syntax.Err
	}
	o.judge.Add(problem.Error, code, o.place(), "%v; the rest of the trace is skipped", err)
}

// table takes the strings and stacks of a trace, and counts.
func (o *validator) table(ev *raw.Event) {
	at := o.place()
	switch ev.Type {
	case raw.EvV1Batch:
		o.counts.Batches++
		if p := ev.Args[0]; p > math.MaxInt32 && p != math.MaxUint64 {
			o.judge.Add(problem.Error, problem.UnknownProc, at, "batch of P %d: ID is too large", p)
		}
		return
	case raw.EvV1String:
		o.addString(ev, at)
	case raw.EvV1Stack:
		o.addStack(ev, at)
	case raw.EvV1Frequency:
		o.addFrequency(ev.Args[0], at)
	case raw.EvV1TimerGoroutine:
	default:
		o.counts.Events++
	}
	if o.batch < 0 && ev.Type != raw.EvV1String {
		o.judge.Add(problem.Error, problem.Framing, at, "%s before the first batch", ev.Spec().Name)
	}
}

func (o *validator) addString(ev *raw.Event, at problem.Place) {
	id, n := ev.Args[0], len(ev.Data)
	switch {
	case id == 0:
		o.judge.Add(problem.Error, problem.ZeroID, at, "string with ID 0, which stands for no string")
	case o.strings[id]:
		o.judge.Add(problem.Error, problem.DuplicateString, at, "string %d is defined twice", id)
	case n == 0:
		o.judge.Add(problem.Error, problem.CutOff, at, "string %d without content", id)
	case n > maxString:
		o.judge.Add(problem.Error, problem.LongString, at, "string %d has %d bytes, exceeds the limit of %d", id, n, int(maxString))
	}
	o.strings[id] = true
}

func (o *validator) addStack(ev *raw.Event, at problem.Place) {
	id, n := ev.Args[0], len(ev.Frames)
	_, known := o.stacks[id]
	switch {
	case n > maxFrames:
		o.judge.Add(problem.Error, problem.LongStack, at, "stack %d has %d frames, exceeds the limit of %d", id, n, maxFrames)
	case id == 0:
		o.judge.Add(problem.Warning, problem.ZeroID, at, "stack with ID 0, which stands for no stack")
	case id > math.MaxUint32:
		o.judge.Add(problem.Warning, problem.ZeroID, at, "stack %d: readers truncate its ID to 32 bits", id)
	case known:
		o.judge.Add(problem.Warning, problem.DuplicateStack, at, "stack %d is defined twice; the last one is used", id)
	}
	o.stacks[id] = n > 0
}

func (o *validator) addFrequency(perSecond uint64, at problem.Place) {
	switch {
	case int64(perSecond) <= 0:
		o.judge.Add(problem.Error, problem.BadSync, at, "Frequency of %d ticks per second", perSecond)
	case o.frequency:
		o.judge.Add(problem.Warning, problem.DuplicateSync, at, "second Frequency; the last one is used")
	}
	o.frequency = true
}

// stringArgs has the events with an argument that is a string, and its index.
var stringArgs = map[raw.Type]int{
	raw.EvV1GoStartLabel: 3, raw.EvV1UserTaskCreate: 3, raw.EvV1UserRegion: 3, raw.EvV1UserLog: 2,
}

// event looks at what an event refers to.
func (o *validator) event(ev *raw.Event) {
	at := o.place()
	if ev.Type == raw.EvV1Stack {
		o.checkFrames(ev, at)
		return
	}
	spec := ev.Spec()
	for i, arg := range spec.Args {
		if arg != "stack" && arg != "new_stack" || ev.Args[i] == 0 {
			continue
		}
		if !o.stacks[ev.Args[i]] {
			o.judge.AddUnlessUnsure(problem.Warning, problem.UnknownStack, at, "%s with undefined stack %d", spec.Name, ev.Args[i])
		}
	}
	if i, ok := stringArgs[ev.Type]; ok && ev.Args[i] != 0 && !o.strings[ev.Args[i]] {
		// The toolchain's reader panics when asked for it.
		o.judge.AddUnlessUnsure(problem.Error, problem.UnknownString, at, "%s with undefined string %d", spec.Name, ev.Args[i])
	}
}

// checkFrames looks at the strings of a stack's frames. Of several frames of one program counter the first one counts.
func (o *validator) checkFrames(ev *raw.Event, at problem.Place) {
	for _, f := range ev.Frames {
		if ev.Args[0] == 0 || o.frames[f.PC] {
			continue
		}
		o.frames[f.PC] = true
		for _, id := range [2]uint64{f.Func, f.File} {
			if id != 0 && !o.strings[id] {
				o.judge.AddUnlessUnsure(problem.Error, problem.UnknownString, at, "stack %d has a frame with undefined string %d", ev.Args[0], id)
			}
		}
	}
}

// accept lets the toolchain's reader read the trace.
func (o *validator) accept(input *wholeTrace) {
	r := &Reader{open: input.open, m: NewMapper(o.version)}
	for {
		err := r.read()
		r.m.Events = r.m.Events[:0]
		if err == io.EOF {
			return
		}
		if err != nil {
			o.judge.Add(problem.Error, problem.Refused, problem.Place{Batch: -1, Event: -1, Thread: generation.None}, "%v", err)
			return
		}
	}
}
