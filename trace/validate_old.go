package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/internal/generation"
	"github.com/loupe-go/loupe/trace/internal/reader"
	"github.com/loupe-go/loupe/trace/internal/tracev1"
	"github.com/loupe-go/loupe/trace/raw"
)

// Limits of the toolchain's reader for traces of before Go 1.22: internal/trace/internal/tracev1/parser.go in the Go tree.
const (
	validOldString = 1e6
	validOldFrames = 1000
)

// old looks at a trace of before Go 1.22.
func (v *validation) old(in *modelInput) error {
	input, err := readOldInput(in, v.version, v.memory)
	v.report.Bytes = int64(len(input.data))
	v.report.Generations = 1
	var syntax *raw.SyntaxError
	if err != nil && !errors.As(err, &syntax) {
		return err // what cannot be read will be reported
	}
	data := input.data
	o := &validOld{v: v, judge: modelJudge{list: v.list}, strings: map[uint64]bool{}, stacks: map[uint64]bool{}, frames: map[uint64]bool{}}
	o.walk(data, o.table)
	o.walk(data, o.event)
	if !o.frequency && v.list.errors == 0 {
		o.judge.add(Error, CodeNoFrequency, o.place(), "the trace has no Frequency")
	}
	if v.list.errors == 0 {
		o.accept(input)
	}
	return nil
}

// A validOld looks at the structure of a trace of before Go 1.22.
type validOld struct {
	v         *validation
	judge     modelJudge
	strings   map[uint64]bool
	stacks    map[uint64]bool // true for those with frames
	frames    map[uint64]bool // program counters
	frequency bool

	// What walk has come to.
	offset int64
	batch  int
	index  int // of the event in the batch
}

func (o *validOld) place() modelPlace {
	return modelPlace{offset: o.offset, batch: o.batch, thread: modelNone, event: o.index}
}

// walk calls f with each event, as far as they can be read. What cannot be read is reported the first time.
func (o *validOld) walk(data []byte, f func(ev *raw.Event)) {
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
func (o *validOld) unreadable(err error) {
	if o.judge.unsure {
		return
	}
	o.judge.unsure = true
	code := CodeFraming
	if errors.Is(err, io.ErrUnexpectedEOF) {
		code = CodeTruncated
	}
	var syntax *raw.SyntaxError
	if errors.As(err, &syntax) {
		err = syntax.Err
	}
	o.judge.add(Error, code, o.place(), "%v; the rest of the trace is left out", err)
}

// table takes the strings and stacks of a trace, and counts.
func (o *validOld) table(ev *raw.Event) {
	at := o.place()
	switch ev.Type {
	case raw.EvV1Batch:
		o.v.report.Batches++
		if p := ev.Args[0]; p > math.MaxInt32 && p != math.MaxUint64 {
			o.judge.add(Error, CodeUnknownProc, at, "batch of P %d, which is too large an ID", p)
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
		o.v.report.Events++
	}
	if o.batch < 0 && ev.Type != raw.EvV1String {
		o.judge.add(Error, CodeFraming, at, "%s before the first batch", ev.Spec().Name)
	}
}

func (o *validOld) addString(ev *raw.Event, at modelPlace) {
	id, n := ev.Args[0], len(ev.Data)
	switch {
	case id == 0:
		o.judge.add(Error, CodeZeroID, at, "string with ID 0, which means none")
	case o.strings[id]:
		o.judge.add(Error, CodeDuplicateString, at, "string %d is there already", id)
	case n == 0:
		o.judge.add(Error, CodeCutOff, at, "string %d without content", id)
	case n > validOldString:
		o.judge.add(Error, CodeLongString, at, "string %d has %d bytes, more than %d", id, n, int(validOldString))
	}
	o.strings[id] = true
}

func (o *validOld) addStack(ev *raw.Event, at modelPlace) {
	id, n := ev.Args[0], len(ev.Frames)
	_, known := o.stacks[id]
	switch {
	case n > validOldFrames:
		o.judge.add(Error, CodeLongStack, at, "stack %d has %d frames, more than %d", id, n, validOldFrames)
	case id == 0:
		o.judge.add(Warning, CodeZeroID, at, "stack with ID 0, which means none")
	case id > math.MaxUint32:
		o.judge.add(Warning, CodeZeroID, at, "stack %d, of whose ID readers keep 32 bits", id)
	case known:
		o.judge.add(Warning, CodeDuplicateStack, at, "stack %d is there already; the last one counts", id)
	}
	o.stacks[id] = n > 0
}

func (o *validOld) addFrequency(perSecond uint64, at modelPlace) {
	switch {
	case int64(perSecond) <= 0:
		o.judge.add(Error, CodeBadSync, at, "Frequency of %d ticks a second", perSecond)
	case o.frequency:
		o.judge.add(Warning, CodeDuplicateSync, at, "second Frequency; the last one counts")
	}
	o.frequency = true
}

// validOldStrings has the events with an argument that is a string, and its index.
var validOldStrings = map[raw.Type]int{
	raw.EvV1GoStartLabel: 3, raw.EvV1UserTaskCreate: 3, raw.EvV1UserRegion: 3, raw.EvV1UserLog: 2,
}

// event looks at what an event refers to.
func (o *validOld) event(ev *raw.Event) {
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
			o.judge.addUnlessUnsure(Warning, CodeUnknownStack, at, "%s with stack %d, which does not exist", spec.Name, ev.Args[i])
		}
	}
	if i, ok := validOldStrings[ev.Type]; ok && ev.Args[i] != 0 && !o.strings[ev.Args[i]] {
		// The toolchain's reader panics when asked for it.
		o.judge.addUnlessUnsure(Error, CodeUnknownString, at, "%s with string %d, which does not exist", spec.Name, ev.Args[i])
	}
}

// checkFrames looks at the strings of a stack's frames. Of several frames of one program counter the first one counts.
func (o *validOld) checkFrames(ev *raw.Event, at modelPlace) {
	for _, f := range ev.Frames {
		if ev.Args[0] == 0 || o.frames[f.PC] {
			continue
		}
		o.frames[f.PC] = true
		for _, id := range [2]uint64{f.Func, f.File} {
			if id != 0 && !o.strings[id] {
				o.judge.addUnlessUnsure(Error, CodeUnknownString, at, "stack %d has a frame with string %d, which does not exist", ev.Args[0], id)
			}
		}
	}
}

// accept lets the toolchain's reader read the trace.
func (o *validOld) accept(input *oldInput) {
	in, limit := generation.NewInput(bytes.NewReader(input.data)), int64(math.MaxInt64)
	v, err := generation.ReadHeader(in)
	if err != nil {
		return // the input has one
	}
	r, part := tracev1.NewReader(in, v, &limit), reader.Part{Events: make([]event.Event, 0, reader.PartSize)}
	for {
		part.Events = part.Events[:0]
		err := r.Fill(&part)
		if err == io.EOF {
			return
		}
		if err != nil {
			o.judge.add(Error, CodeRefused, modelPlace{batch: -1, event: -1, thread: modelNone}, "%v", err)
			return
		}
	}
}

// readMaxRow bounds how often the toolchain's reader calls itself.
const readMaxRow = 200_000

// readHeader is the header of a trace.
type readHeader struct {
	v    raw.Version
	done int
}

func (h *readHeader) Read(b []byte) (int, error) {
	header := fmt.Appendf(nil, "go 1.%d trace\x00\x00\x00", h.v)
	if h.done == len(header) {
		return 0, io.EOF
	}
	n := copy(b, header[h.done:])
	h.done += n
	return n, nil
}

// A modelRest reads what an input has left.
type modelRest struct{ in *modelInput }

func (r modelRest) Read(b []byte) (int, error) {
	if !r.in.need(1) {
		return 0, r.in.err
	}
	return copy(b, r.in.take(min(len(b), r.in.size()))), nil
}
