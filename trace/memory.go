package trace

import (
	"fmt"
	"io"

	"github.com/loupe-go/loupe/trace/raw"
)

// DefaultMaxMemory is the most memory, in bytes, that reading a trace takes by default.
const DefaultMaxMemory = 2 << 30

// A MemoryError reports that reading a trace requires more memory than permitted.
type MemoryError struct {
	Version raw.Version
	Limit   int64 // the limit in bytes
	Offset  int64 // the offset in bytes up to which the trace was read
}

// Error returns what takes the memory, in one line.
func (e *MemoryError) Error() string {
	what := "one generation"
	if e.Version.V1() {
		what = "a trace of " + e.Version.String()
	}
	return fmt.Sprintf("offset %d: %s does not fit into %d MiB of memory", e.Offset, what, e.Limit>>20)
}

// memoryLimit returns the limit that an option stands for.
func memoryLimit(option int64) int64 {
	if option <= 0 {
		return DefaultMaxMemory
	}
	return option
}

// What the parts of a trace take in memory, in bytes. These are estimates: of the largest form that a thing has while it is
// kept, with the tables that find it.
const (
	memoryString    = 160
	memoryStack     = 384
	memoryFrame     = 16  // a reference to a frame
	memoryPC        = 320 // a frame itself
	memorySample    = 160
	memoryBatch     = 160
	memoryStream    = 512
	memoryGoroutine = 512
	memoryProc      = 256
	memoryTask      = 128
	memoryProblem   = 512
)

// memory returns about how many bytes a generation takes.
func (g *modelGeneration) memory() int64 {
	s, t := &g.strings, &g.stacks
	return int64(len(s.list))*memoryString + int64(len(t.list))*memoryStack + int64(len(t.frames))*memoryFrame +
		int64(t.byPC.n)*memoryPC + int64(len(g.samples))*memorySample + int64(g.batches)*memoryBatch +
		int64(len(g.streams))*memoryStream
}

// memory returns about how many bytes the state of the scheduler takes.
func (md *model) memory() int64 {
	return int64(md.gos.n+len(md.freeGos))*memoryGoroutine + int64(md.procs.n)*memoryProc + int64(md.threads.n)*memoryStream +
		int64(len(md.tasks))*memoryTask
}

// An oldInput is a trace of before Go 1.22 in memory.
type oldInput struct {
	data []byte
	// events, strings and the others count what is in data.
	events, strings, stacks, frames, samples, goroutines int64

	pcs map[uint64]struct{}
	// row counts the events in a row of a P that the toolchain's reader calls itself for, longest has the most of each P, and
	// deep is their sum.
	row, longest map[uint64]int
	deep         int
}

// What an event of before Go 1.22 takes in the toolchain's reader, and a byte of the trace: it is read into memory twice,
// growing.
const (
	memoryOldEvent = 72
	memoryOldByte  = 5
)

// memory returns about how many bytes the trace takes when it is read.
func (o *oldInput) memory() int64 {
	return int64(len(o.data))*memoryOldByte + o.events*memoryOldEvent + o.strings*memoryString + o.stacks*memoryStack +
		o.frames*memoryFrame + int64(len(o.pcs))*memoryPC + o.samples*memorySample + o.goroutines*memoryGoroutine
}

// add counts an event.
func (o *oldInput) add(ev *raw.Event, p uint64) {
	o.events++
	switch ev.Type {
	case raw.EvV1String:
		o.strings++
		return
	case raw.EvV1Stack:
		o.stacks++
		o.frames += int64(len(ev.Frames))
		for _, f := range ev.Frames {
			o.pcs[f.PC] = struct{}{}
		}
		return
	case raw.EvV1GoCreate, raw.EvV1GoSysBlock:
		o.goroutines++
		if o.row[p]++; o.row[p] > o.longest[p] {
			o.longest[p]++
			o.deep++
		}
		return
	case raw.EvV1CPUSample:
		o.samples++
	case raw.EvV1UserLog:
		o.strings++
	}
	o.row[p] = 0
}

// readOldInput reads a trace of before Go 1.22 from where its header ends. It stops where the trace cannot be read on, and
// returns the raw.SyntaxError, a MemoryError or the error of the underlying reader with what precedes.
func readOldInput(in *modelInput, v raw.Version, limit int64) (*oldInput, error) {
	o := &oldInput{pcs: map[uint64]struct{}{}, row: map[uint64]int{}, longest: map[uint64]int{}}
	r, err := raw.NewReader(io.TeeReader(io.MultiReader(&readHeader{v: v}, modelRest{in}), o))
	if err != nil {
		return o, err
	}
	var ev raw.Event
	for p := uint64(0); ; {
		err := r.ReadEvent(&ev)
		switch {
		case err == io.EOF:
			return o, nil
		case err != nil:
			return o, err
		case ev.Type == raw.EvV1Batch:
			p = ev.Args[0]
		}
		if o.add(&ev, p); o.events%1024 == 0 && o.memory() > limit {
			return o, &MemoryError{Version: v, Limit: limit, Offset: r.Offset()}
		}
	}
}

// Write keeps what was read.
func (o *oldInput) Write(b []byte) (int, error) {
	o.data = append(o.data, b...)
	return len(b), nil
}
