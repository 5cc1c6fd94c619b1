package generation

import (
	"io"

	"github.com/loupe-go/loupe/trace/internal/idtable"
	"github.com/loupe-go/loupe/trace/internal/memory"
	"github.com/loupe-go/loupe/trace/internal/problem"
	"github.com/loupe-go/loupe/trace/raw"
)

// A Loader reads generations, one after the other.
type Loader struct {
	in      *Input
	version raw.Version
	judge   problem.Judge
	limit   int // of the problems kept of each code and generation; 0 to end at the first Error

	g       *Generation
	index   map[uint64]*Stream
	last    uint64 // the number of the generation before
	loaded  int    // how many there were
	batches int
	ended   bool // nothing is left
	atEnd   bool // the trace has ended within the generation
	broken  bool // the header of a batch cannot be read

	Memory int64 // bytes that may be used; 0 for any number
	State  int64 // bytes that are used besides generations
	Over   error // set when memory does not suffice

	spare *Generation // one that was used
}

// NewLoader returns a Loader for a trace of a version, whose header has been read. It keeps at most limit problems of each
// code and generation, or stops at the first Error if limit is 0.
func NewLoader(in *Input, v raw.Version, limit int) *Loader {
	return &Loader{in: in, version: v, limit: limit}
}

// batchHeader is the header of a batch.
type batchHeader struct {
	kind               raw.Type // EvEventBatch, EvExperimentalBatch or EvEndOfGeneration; 0 at the end of the trace
	experiment         byte
	gen, m, time, size uint64
	length             int // of the header itself, in bytes
	fault              problem.Code
	faultValue         int
}

// maxBatchHeader is the most bytes that a header has.
const maxBatchHeader = 2 + 4*maxNumberSize

// peek reads the header of the next batch without taking it.
func (l *Loader) peek() batchHeader {
	l.in.need(maxBatchHeader)
	return l.peekAt(0)
}

// peekAt reads the header of a batch that begins n bytes on, in what was read of the input.
func (l *Loader) peekAt(n int) (h batchHeader) {
	in := l.in
	end := min(in.size()-n, maxBatchHeader)
	if end <= 0 {
		return h
	}
	b := in.buf[in.pos+n:]
	switch t := raw.Type(b[0]); t {
	case raw.EvEndOfGeneration:
		h.kind, h.length = t, 1
		return h
	case raw.EvEventBatch:
		h.kind, h.length = t, 1
	case raw.EvExperimentalBatch:
		h.kind, h.length = t, 2
		h.experiment = b[1]
		if end < 2 {
			h.fault = problem.Truncated
			return h
		}
	default:
		h.fault, h.faultValue = problem.Framing, int(b[0])
		return h
	}
	for _, x := range []*uint64{&h.gen, &h.m, &h.time, &h.size} {
		var next int
		*x, next = Number(b, h.length)
		if next < 0 || next > end {
			if h.fault = NumberFault(b, h.length, end); h.fault == problem.CutOff {
				h.fault = problem.Truncated
			}
			return h
		}
		h.length = next
	}
	return h
}

// Next returns the next generation. At the end of the trace it returns io.EOF, and else the error that ends all: of the
// underlying reader, or the first Error if that is what was asked for. generation and error do not come together.
func (l *Loader) Next() (*Generation, error) {
	if l.ended {
		return nil, l.end()
	}
	l.begin()
	l.batchesOfGeneration()
	if l.Over != nil {
		return nil, l.end()
	}
	g := l.g
	failed := l.judge.Failed
	switch {
	case failed != nil && !(l.broken && l.version < raw.Go126 && g.Number != 0):
		// Nothing tells that the generation is complete.
		return nil, l.end()
	case l.atEnd && l.version >= raw.Go126 && l.in.failure() != nil && l.judge.List == nil:
		return nil, l.end()
	case l.atEnd && len(g.Streams) == 0 && (l.version >= raw.Go126 || l.loaded > 0 && g.Batches == 0):
		return l.nothing()
	}
	l.judge.Failed, l.judge.Unsure = nil, g.Unsure
	if l.finish(); !l.judge.GoesOn() {
		return nil, l.end()
	}
	l.judge.Failed = failed // is returned next time
	l.ended = l.atEnd || failed != nil
	l.loaded++
	g.chunks, g.Problems = l.in.finish(), l.judge.List
	l.last = g.Number
	return g, nil
}

// nothing ends a trace whose last generation has no events. What was found on the way is returned as a generation.
func (l *Loader) nothing() (*Generation, error) {
	l.ended = true
	if list := l.judge.List; list != nil && len(list.Counts) > 0 {
		g := &Generation{offset: l.g.offset, Problems: list, Empty: true}
		return g, nil
	}
	return nil, l.end()
}

// end returns the error that ends all.
func (l *Loader) end() error {
	l.ended = true
	if l.Over != nil {
		return l.Over
	}
	if err := l.in.failure(); err != nil {
		return err
	}
	if l.judge.Failed != nil {
		return l.judge.Failed
	}
	return io.EOF
}

// begin prepares for the next generation.
func (l *Loader) begin() {
	if l.g, l.spare = l.spare, nil; l.g == nil {
		l.g = &Generation{Stacks: Stacks{byPC: idtable.NewTable[Frame]()}}
	}
	l.g.offset = l.in.Offset()
	l.index = map[uint64]*Stream{}
	if l.limit > 0 {
		l.judge.List = problem.NewList(l.limit)
	}
}

// Release takes back a generation that was used.
func (l *Loader) Release(g *Generation) {
	l.in.recycle(g.chunks)
	g.Strings.reset()
	g.Stacks.reset()
	*g = Generation{Strings: g.Strings, Stacks: g.Stacks, Samples: g.Samples[:0]}
	l.spare = g
}

// Fits reports whether what was read fits into memory, and sets Over if not.
func (l *Loader) Fits() bool {
	used := l.in.held + l.g.memory() + l.State
	if list := l.judge.List; list != nil {
		used += int64(len(list.Kept)) * memory.Problem
	}
	if l.Memory > 0 && used > l.Memory {
		l.Over = &memory.Error{Version: l.version, Limit: l.Memory, Offset: l.in.Offset()}
	}
	return l.Over == nil
}

// place returns the place of the batch that comes next.
func (l *Loader) place() problem.Place {
	return problem.Place{Offset: l.in.Offset(), Generation: l.g.Number, Batch: -1, Thread: None, Event: -1}
}

// batchesOfGeneration reads the batches of a generation.
func (l *Loader) batchesOfGeneration() {
	for l.judge.GoesOn() && l.Fits() {
		h := l.peek()
		switch {
		case h.fault != "":
			if l.unreadable(h) {
				return
			}
		case h.kind == 0:
			l.endOfTrace()
			return
		case h.kind == raw.EvEndOfGeneration:
			if l.version >= raw.Go126 {
				l.in.take(1)
				return
			}
			l.judge.Add(problem.Error, problem.Version, l.place(), "EndOfGeneration in a trace of %v", l.version)
			l.in.take(1)
		default:
			switch l.belongs(&h) {
			case nextGeneration:
				return
			case thisGeneration:
				l.batch(h)
			default:
				l.skip(h)
			}
		}
	}
}

// endOfTrace is called when the trace ends before the generation does.
func (l *Loader) endOfTrace() {
	l.atEnd = true
	if l.version < raw.Go126 || l.g.Number == 0 || l.in.failure() != nil {
		return
	}
	severity := problem.Warning // without events, readers do not miss the generation
	if len(l.g.Streams) > 0 {
		severity = problem.Error
		l.g.Unsure = true // the tables come last
	}
	l.judge.Add(severity, problem.NoEnd, l.place(), "the trace ends within generation %d: EndOfGeneration is missing", l.g.Number)
}

// membership says what generation a batch belongs to.
type membership uint8

const (
	thisGeneration membership = iota // the one that is being read
	nextGeneration                   // the next one
	noGeneration                     // none that can be
)

// belongs says what generation a batch belongs to.
func (l *Loader) belongs(h *batchHeader) membership {
	g := l.g
	at := l.place()
	at.Batch, at.Thread = l.batches, h.m
	if h.gen == 0 {
		l.judge.Add(problem.Error, problem.Generation, at, "batch of generation 0, which is not a valid generation")
		h.gen = max(g.Number, 1)
	}
	next := g.Number + 1
	if g.Number == 0 {
		next = l.last + 1
	}
	switch {
	case h.gen == g.Number:
		return thisGeneration
	case g.Number == 0 && (l.last == 0 || h.gen == next):
		if l.last == 0 && !l.believable(h) {
			return l.nowhere(h, at)
		}
		g.Number = h.gen
		return thisGeneration
	case g.Number == 0:
		if !l.believable(h) {
			return l.nowhere(h, at)
		}
		g.Number, at.Generation = h.gen, h.gen
		l.judge.Add(problem.Warning, problem.GenerationGap, at, "generation %d comes after generation %d", h.gen, l.last)
		return thisGeneration
	case h.gen == next && l.version < raw.Go126:
		return nextGeneration
	case h.gen < g.Number || h.gen != next && !l.believable(h):
		return l.nowhere(h, at)
	case l.version >= raw.Go126:
		l.judge.Add(problem.Error, problem.NoEnd, at, "generation %d begins, but generation %d has no EndOfGeneration", h.gen, g.Number)
	default:
		l.judge.Add(problem.Error, problem.Generation, at, "generation %d begins after generation %d", h.gen, g.Number)
	}
	return nextGeneration
}

// nowhere reports a batch with a generation that cannot be.
func (l *Loader) nowhere(h *batchHeader, at problem.Place) membership {
	if l.g.Number == 0 {
		l.judge.Add(problem.Error, problem.Generation, at, "batch of generation %d, but the next batch is of another generation", h.gen)
	} else {
		l.judge.Add(problem.Error, problem.Generation, at, "batch of generation %d among batches of generation %d", h.gen, l.g.Number)
	}
	return noGeneration
}

// believable reports whether the generation of a batch fits that of one of the two after it. Without a list of problems
// everything is believed, for what is wrong then the next batch will show.
func (l *Loader) believable(h *batchHeader) bool {
	if l.judge.List == nil {
		return true
	}
	n, size := h.length, h.size
	for range 2 {
		if size > maxBatchSize || !l.in.need(n+int(size)) {
			return true // which will be told
		}
		n += int(size)
		l.in.need(n + maxBatchHeader)
		after := l.peekAt(n)
		switch {
		case l.in.size() == n:
			return true
		case after.fault != "":
			return h.gen == l.last+1
		case after.kind == raw.EvEndOfGeneration || after.gen == h.gen || after.gen == h.gen+1:
			return true
		}
		n, size = n+after.length, after.size
	}
	return false
}

// skip leaves out a batch whose generation cannot be. If its size cannot be right either, input is left out until a batch
// seems to begin.
func (l *Loader) skip(h batchHeader) {
	l.g.Unsure = true
	l.batches++
	if h.size > maxBatchSize || !l.in.need(h.length+int(h.size)) {
		l.resync()
		return
	}
	n := h.length + int(h.size)
	l.in.need(n + maxBatchHeader)
	if after := l.peekAt(n); l.in.size() > n && !l.plausible(&after) {
		l.resync()
		return
	}
	l.in.take(n)
}

// finish completes a generation of which all batches were read.
func (l *Loader) finish() {
	g := l.g
	at := l.place()
	at.Offset = g.offset
	if !g.Clock.known {
		l.judge.AddUnlessUnsure(problem.Error, problem.NoFrequency, at, "generation %d has no Frequency", g.Number)
		g.Clock.setFrequency(1e9)
	}
	if l.version >= raw.Go125 && !g.Clock.HasSnapshot {
		l.judge.AddUnlessUnsure(problem.Error, problem.NoClock, at, "generation %d has no ClockSnapshot", g.Number)
	}
	l.finishExperiments()
	l.finishTables()
	l.finishSamples()
}
