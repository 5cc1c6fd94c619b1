package trace

import (
	"io"

	"github.com/loupe-go/loupe/trace/raw"
)

// A modelLoader reads generations, one after the other.
type modelLoader struct {
	in      *modelInput
	version raw.Version
	judge   modelJudge
	limit   int // of the problems kept of each code and generation; 0 to end at the first Error

	g       *modelGeneration
	index   map[uint64]*modelStream
	last    uint64 // the number of the generation before
	loaded  int    // how many there were
	batches int
	ended   bool // nothing is left
	atEnd   bool // the trace has ended within the generation
	broken  bool // the header of a batch cannot be read

	memory int64 // bytes that may be used; 0 for any number
	state  int64 // bytes that are used besides generations
	over   error // set when memory does not suffice

	spare *modelGeneration // one that was used
}

func newModelLoader(in *modelInput, v raw.Version, limit int) *modelLoader {
	return &modelLoader{in: in, version: v, limit: limit}
}

// modelHeader is the header of a batch.
type modelHeader struct {
	kind               raw.Type // EvEventBatch, EvExperimentalBatch or EvEndOfGeneration; 0 at the end of the trace
	experiment         byte
	gen, m, time, size uint64
	length             int // of the header itself, in bytes
	fault              Code
	faultValue         int
}

// modelMaxHeader is the most bytes that a header has.
const modelMaxHeader = 2 + 4*modelMaxNumber

// peek reads the header of the next batch without taking it.
func (l *modelLoader) peek() modelHeader {
	l.in.need(modelMaxHeader)
	return l.peekAt(0)
}

// peekAt reads the header of a batch that begins n bytes on, in what was read of the input.
func (l *modelLoader) peekAt(n int) (h modelHeader) {
	in := l.in
	end := min(in.size()-n, modelMaxHeader)
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
			h.fault = CodeTruncated
			return h
		}
	default:
		h.fault, h.faultValue = CodeFraming, int(b[0])
		return h
	}
	for _, x := range []*uint64{&h.gen, &h.m, &h.time, &h.size} {
		var next int
		*x, next = modelNumber(b, h.length)
		if next < 0 || next > end {
			if h.fault = modelNumberFault(b, h.length, end); h.fault == CodeCutOff {
				h.fault = CodeTruncated
			}
			return h
		}
		h.length = next
	}
	return h
}

// next returns the next generation. At the end of the trace it returns io.EOF, and else the error that ends all: of the
// underlying reader, or the first Error if that is what was asked for. generation and error do not come together.
func (l *modelLoader) next() (*modelGeneration, error) {
	if l.ended {
		return nil, l.end()
	}
	l.begin()
	l.batchesOfGeneration()
	if l.over != nil {
		return nil, l.end()
	}
	g := l.g
	failed := l.judge.failed
	switch {
	case failed != nil && !(l.broken && l.version < raw.Go126 && g.number != 0):
		// Nothing tells that the generation is complete.
		return nil, l.end()
	case l.atEnd && l.version >= raw.Go126 && l.in.failure() != nil && l.judge.list == nil:
		return nil, l.end()
	case l.atEnd && len(g.streams) == 0 && (l.version >= raw.Go126 || l.loaded > 0 && g.batches == 0):
		return l.nothing()
	}
	l.judge.failed, l.judge.unsure = nil, g.unsure
	if l.finish(); !l.judge.goesOn() {
		return nil, l.end()
	}
	l.judge.failed = failed // is returned next time
	l.ended = l.atEnd || failed != nil
	l.loaded++
	g.chunks, g.problems = l.in.finish(), l.judge.list
	l.last = g.number
	return g, nil
}

// nothing ends a trace whose last generation has no events. What was found on the way is returned as a generation.
func (l *modelLoader) nothing() (*modelGeneration, error) {
	l.ended = true
	if list := l.judge.list; list != nil && len(list.counts) > 0 {
		g := &modelGeneration{offset: l.g.offset, problems: list, empty: true}
		return g, nil
	}
	return nil, l.end()
}

// end returns the error that ends all.
func (l *modelLoader) end() error {
	l.ended = true
	if l.over != nil {
		return l.over
	}
	if err := l.in.failure(); err != nil {
		return err
	}
	if l.judge.failed != nil {
		return l.judge.failed
	}
	return io.EOF
}

// begin prepares for the next generation.
func (l *modelLoader) begin() {
	if l.g, l.spare = l.spare, nil; l.g == nil {
		l.g = &modelGeneration{stacks: modelStacks{byPC: newModelTable[modelFrame]()}}
	}
	l.g.offset = l.in.offset()
	l.index = map[uint64]*modelStream{}
	if l.limit > 0 {
		l.judge.list = newValidList(l.limit)
	}
}

// release takes back a generation that was used.
func (l *modelLoader) release(g *modelGeneration) {
	l.in.recycle(g.chunks)
	g.strings.reset()
	g.stacks.reset()
	*g = modelGeneration{strings: g.strings, stacks: g.stacks, samples: g.samples[:0]}
	l.spare = g
}

// fits reports whether what was read fits into memory, and sets over if not.
func (l *modelLoader) fits() bool {
	used := l.in.held + l.g.memory() + l.state
	if list := l.judge.list; list != nil {
		used += int64(len(list.kept)) * memoryProblem
	}
	if l.memory > 0 && used > l.memory {
		l.over = &MemoryError{Version: l.version, Limit: l.memory, Offset: l.in.offset()}
	}
	return l.over == nil
}

// place returns the place of the batch that comes next.
func (l *modelLoader) place() modelPlace {
	return modelPlace{offset: l.in.offset(), generation: l.g.number, batch: -1, thread: modelNone, event: -1}
}

// batchesOfGeneration reads the batches of a generation.
func (l *modelLoader) batchesOfGeneration() {
	for l.judge.goesOn() && l.fits() {
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
			l.judge.add(Error, CodeVersion, l.place(), "EndOfGeneration in a trace of %v", l.version)
			l.in.take(1)
		default:
			switch l.belongs(&h) {
			case modelOther:
				return
			case modelThis:
				l.batch(h)
			default:
				l.skip(h)
			}
		}
	}
}

// endOfTrace is called when the trace ends before the generation does.
func (l *modelLoader) endOfTrace() {
	l.atEnd = true
	if l.version < raw.Go126 || l.g.number == 0 || l.in.failure() != nil {
		return
	}
	severity := Warning // without events, readers do not miss the generation
	if len(l.g.streams) > 0 {
		severity = Error
		l.g.unsure = true // the tables come last
	}
	l.judge.add(severity, CodeNoEnd, l.place(), "the trace ends within generation %d: EndOfGeneration is missing", l.g.number)
}

// modelBelongs says what generation a batch belongs to.
type modelBelongs uint8

const (
	modelThis    modelBelongs = iota // the one that is being read
	modelOther                       // the next one
	modelNowhere                     // none that can be
)

// belongs says what generation a batch belongs to.
func (l *modelLoader) belongs(h *modelHeader) modelBelongs {
	g := l.g
	at := l.place()
	at.batch, at.thread = l.batches, h.m
	if h.gen == 0 {
		l.judge.add(Error, CodeGeneration, at, "batch of generation 0, which no generation is")
		h.gen = max(g.number, 1)
	}
	next := g.number + 1
	if g.number == 0 {
		next = l.last + 1
	}
	switch {
	case h.gen == g.number:
		return modelThis
	case g.number == 0 && (l.last == 0 || h.gen == next):
		if l.last == 0 && !l.believable(h) {
			return l.nowhere(h, at)
		}
		g.number = h.gen
		return modelThis
	case g.number == 0:
		if !l.believable(h) {
			return l.nowhere(h, at)
		}
		g.number, at.generation = h.gen, h.gen
		l.judge.add(Warning, CodeGenerationGap, at, "generation %d comes after generation %d", h.gen, l.last)
		return modelThis
	case h.gen == next && l.version < raw.Go126:
		return modelOther
	case h.gen < g.number || h.gen != next && !l.believable(h):
		return l.nowhere(h, at)
	case l.version >= raw.Go126:
		l.judge.add(Error, CodeNoEnd, at, "generation %d begins, and generation %d has no EndOfGeneration", h.gen, g.number)
	default:
		l.judge.add(Error, CodeGeneration, at, "generation %d begins after generation %d", h.gen, g.number)
	}
	return modelOther
}

// nowhere reports a batch with a generation that cannot be.
func (l *modelLoader) nowhere(h *modelHeader, at modelPlace) modelBelongs {
	if l.g.number == 0 {
		l.judge.add(Error, CodeGeneration, at, "batch of generation %d, and the next one is not", h.gen)
	} else {
		l.judge.add(Error, CodeGeneration, at, "batch of generation %d among those of generation %d", h.gen, l.g.number)
	}
	return modelNowhere
}

// believable reports whether the generation of a batch fits that of one of the two after it. Without a list of problems
// everything is believed, for what is wrong then the next batch will show.
func (l *modelLoader) believable(h *modelHeader) bool {
	if l.judge.list == nil {
		return true
	}
	n, size := h.length, h.size
	for range 2 {
		if size > modelMaxBatch || !l.in.need(n+int(size)) {
			return true // which will be told
		}
		n += int(size)
		l.in.need(n + modelMaxHeader)
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
func (l *modelLoader) skip(h modelHeader) {
	l.g.unsure = true
	l.batches++
	if h.size > modelMaxBatch || !l.in.need(h.length+int(h.size)) {
		l.resync()
		return
	}
	n := h.length + int(h.size)
	l.in.need(n + modelMaxHeader)
	if after := l.peekAt(n); l.in.size() > n && !l.plausible(&after) {
		l.resync()
		return
	}
	l.in.take(n)
}

// finish completes a generation of which all batches were read.
func (l *modelLoader) finish() {
	g := l.g
	at := l.place()
	at.offset = g.offset
	if !g.clock.known {
		l.judge.addUnlessUnsure(Error, CodeNoFrequency, at, "generation %d has no Frequency", g.number)
		g.clock.setFrequency(1e9)
	}
	if l.version >= raw.Go125 && !g.clock.hasSnapshot {
		l.judge.addUnlessUnsure(Error, CodeNoClock, at, "generation %d has no ClockSnapshot", g.number)
	}
	l.finishExperiments()
	l.finishTables()
	l.finishSamples()
}
