package generation

import (
	"bytes"
	"cmp"
	"io"
	"slices"
	"strconv"

	"github.com/loupe-go/loupe/trace/internal/problem"
	"github.com/loupe-go/loupe/trace/raw"
)

// unreadable handles what is no header of a batch. It reports whether the trace ends here.
func (l *Loader) unreadable(h batchHeader) bool {
	at := l.place()
	at.Batch = l.batches
	left := l.in.size()
	switch {
	case h.fault == problem.Truncated && h.kind == raw.EvExperimentalBatch && left == 1:
		// Readers take this for the end.
		l.judge.Add(problem.Warning, problem.Truncated, at, "the trace ends within the header of a batch")
		l.in.take(left)
		l.endOfTrace()
		return true
	case h.fault == problem.Truncated:
		l.judge.Add(problem.Error, problem.Truncated, at, "the trace ends within the header of a batch")
	case h.fault == problem.Overflow:
		l.judge.Add(problem.Error, problem.Overflow, at, "header of a batch with a number that exceeds 64 bits")
	case h.faultValue < len(EventSpecs) && EventSpecs[h.faultValue].Name != "":
		l.judge.Add(problem.Error, problem.Framing, at, "%s, want the start of a batch", EventSpecs[h.faultValue].Name)
	default:
		l.judge.Add(problem.Error, problem.Framing, at, "byte %d, want the start of a batch", h.faultValue)
	}
	l.broken = true
	if l.judge.List == nil {
		return true
	}
	l.g.Unsure = true
	l.resync()
	return false
}

// maxGap is how much may lie between two batches. Behind more than that nothing is looked for, so that the rest of a large
// file need not be read.
const maxGap = 16 << 20

// resync leaves out input until a batch seems to begin, or all.
func (l *Loader) resync() {
	in := l.in
	at := l.place()
	in.take(1)
	keep := len(in.used)
	for in.need(1) {
		if in.Offset()-at.Offset > maxGap {
			l.judge.Add(problem.Error, problem.Framing, at, "no batch within %d MiB: the rest of the trace is not checked", maxGap>>20)
			in.end, in.done, in.err = in.pos, true, io.EOF
			return
		}
		in.need(maxBatchHeader + maxBatchSize + 1)
		if len(in.used) > keep+1 {
			in.recycle(in.used[keep+1:])
			in.used = in.used[:keep+1]
		}
		i := bytes.IndexAny(in.buf[in.pos:in.end], "\x01\x31\x34")
		if i < 0 {
			in.take(in.size())
			continue
		}
		in.take(i)
		in.need(maxBatchHeader + maxBatchSize + 1)
		if l.seemsBatch() {
			return
		}
		in.take(1)
	}
}

// seemsBatch reports whether what comes next may well be a batch, with another one behind it.
func (l *Loader) seemsBatch() bool {
	h := l.peek()
	n := h.length
	if h.kind != raw.EvEndOfGeneration {
		if !l.plausible(&h) || h.size == 0 || n+int(h.size) > l.in.size() {
			return false
		}
		first := raw.Type(l.in.buf[l.in.pos+n])
		if h.kind == raw.EvEventBatch && EventSpecs[first].Args == 0 && !opensTable(first) {
			return false
		}
		n += int(h.size)
	}
	after := l.peekAt(n)
	return l.in.size() == n || l.plausible(&after)
}

// opensTable reports whether an event type says that its batch is none of a thread.
func opensTable(t raw.Type) bool {
	switch t {
	case raw.EvStrings, raw.EvStacks, raw.EvCPUSamples, raw.EvFrequency, raw.EvSync:
		return true
	}
	return false
}

// plausible reports whether a header may well be that of the next batch.
func (l *Loader) plausible(h *batchHeader) bool {
	if h.fault != "" || h.kind == 0 {
		return false
	}
	if h.kind == raw.EvEndOfGeneration {
		return l.version >= raw.Go126
	}
	gen := l.g.Number
	if gen == 0 {
		gen = l.last
	}
	// A generation takes less than 2^36 ticks, which are 68 seconds or more.
	const long = 1 << 36
	min := l.g.MinTime
	return h.size <= maxBatchSize && (h.gen == gen || h.gen == gen+1) && (min == 0 || h.time+long > min && h.time < min+long) &&
		(h.kind == raw.EvEventBatch || h.experiment == byte(raw.AllocFree))
}

// hopeless is the size above which that of a batch is not believed.
const hopeless = 4 * maxBatchSize

// batch takes a batch into the generation.
func (l *Loader) batch(h batchHeader) {
	g, in := l.g, l.in
	at := l.place()
	at.Batch, at.Thread = l.batches, h.m
	if h.size > maxBatchSize {
		l.judge.Add(problem.Error, problem.BatchSize, at, "batch of %d bytes, exceeds the limit of %d", h.size, maxBatchSize)
		l.broken = true
		switch {
		case l.judge.List == nil:
			return
		case h.size > hopeless:
			g.Unsure = true
			l.resync()
			return
		}
	}
	in.take(h.length)
	if !in.need(int(h.size)) {
		l.judge.Add(problem.Error, problem.Truncated, at, "the trace ends within a batch: %d bytes of %d are missing", int(h.size)-in.size(), h.size)
		l.broken = true
		g.Unsure = true
		in.take(in.size())
		return
	}
	b := Batch{Size: int(h.size), Time: h.time, Offset: in.Offset(), Number: l.batches, Header: uint8(h.length)}
	b.Data = in.buf[in.pos : in.pos+b.Size+tail]
	in.take(b.Size)
	l.batches++
	g.Batches++
	if g.MinTime == 0 || h.time < g.MinTime {
		g.MinTime = h.time
	}
	r := content{l: l, b: &b, at: at}
	r.at.Offset, r.at.Event = b.Offset, 0
	if h.kind == raw.EvExperimentalBatch {
		r.experimental(h.experiment)
		return
	}
	first := raw.Type(0)
	if b.Size > 0 {
		first = raw.Type(b.Data[0])
	}
	switch {
	case first == raw.EvStrings:
		r.each(raw.EvString, r.addString)
	case first == raw.EvStacks:
		r.each(raw.EvStack, r.addStack)
	case first == raw.EvCPUSamples:
		r.each(raw.EvCPUSample, r.addSample)
	case first == raw.EvSync && l.version >= raw.Go125:
		r.each(0, r.addSync)
	case first == raw.EvFrequency && l.version < raw.Go125:
		r.pos = -1 // has no event of its own that says what the batch is
		r.each(0, r.addSync)
	default:
		s := g.stream(h.m, l.index)
		s.Batches = append(s.Batches, b)
	}
}

// A content reads a batch that has something else than events of a thread.
type content struct {
	l   *Loader
	b   *Batch
	at  problem.Place // of the entry that is being read
	pos int           // index in the batch's data
	// what is the entry that is being read.
	what string
}

// each calls add for each entry of the batch, which are of type t, or of any for 0, until it returns false. The batch's
// first byte is left out.
func (r *content) each(t raw.Type, add func(t raw.Type) bool) {
	for r.pos++; r.pos < r.b.Size; {
		r.at.Event++
		r.at.Offset = r.b.Offset + int64(r.pos)
		got := raw.Type(r.b.Data[r.pos])
		r.what = EventName(got)
		if t != 0 && got != t {
			r.fail(problem.UnknownEvent, "%s in a batch of %s events", EventName(got), EventName(t))
			return
		}
		r.pos++
		if !add(got) {
			return
		}
	}
}

// EventName returns the name of an event type.
func EventName(t raw.Type) string {
	if name := EventSpecs[t].Name; name != "" {
		return name
	}
	return "event of type " + strconv.Itoa(int(t))
}

// fail reports an Error in the current entry, for which the rest of the batch is left out. It returns false.
func (r *content) fail(code problem.Code, format string, args ...any) bool {
	r.l.judge.Add(problem.Error, code, r.at, format, args...)
	r.l.g.Unsure = true
	return false
}

// number reads a number.
func (r *content) number() (uint64, bool) {
	x, next := Number(r.b.Data, min(r.pos, r.b.Size))
	if next >= 0 && next <= r.b.Size {
		r.pos = next
		return x, true
	}
	if code := NumberFault(r.b.Data, r.pos, r.b.Size); code == problem.Overflow {
		return 0, r.fail(code, "%s with a number that exceeds 64 bits", r.what)
	}
	return 0, r.fail(problem.CutOff, "%s is cut off by the end of its batch", r.what)
}

// numbers reads several numbers.
func (r *content) numbers(to ...*uint64) bool {
	for _, x := range to {
		var ok bool
		if *x, ok = r.number(); !ok {
			return false
		}
	}
	return true
}

// addString reads a string.
func (r *content) addString(raw.Type) bool {
	var id, n uint64
	if !r.numbers(&id, &n) {
		return false
	}
	if n > maxStringSize {
		r.l.judge.Add(problem.Error, problem.LongString, r.at, "string %d has %d bytes, exceeds the limit of %d", id, n, maxStringSize)
	}
	if n > uint64(r.b.Size-r.pos) {
		return r.fail(problem.CutOff, "string %d is cut off by the end of its batch", id)
	}
	data := r.b.Data[r.pos : r.pos+int(n)]
	r.pos += int(n)
	if id == 0 {
		r.l.judge.Add(problem.Error, problem.ZeroID, r.at, "string with ID 0, which stands for no string")
		return r.l.judge.GoesOn()
	}
	s := &r.l.g.Strings
	s.IDs.Add(id)
	s.List = append(s.List, String{Data: data, at: r.at.Offset, batch: r.b.Number, index: r.at.Event})
	return r.l.judge.GoesOn()
}

// addStack reads a stack.
func (r *content) addStack(raw.Type) bool {
	var id, n uint64
	if !r.numbers(&id, &n) {
		return false
	}
	if n > maxStackFrames {
		r.l.judge.Add(problem.Error, problem.LongStack, r.at, "stack %d has %d frames, exceeds the limit of %d", id, n, maxStackFrames)
	}
	if n > uint64(r.b.Size-r.pos) {
		return r.fail(problem.CutOff, "stack %d is cut off by the end of its batch", id)
	}
	s := &r.l.g.Stacks
	stack := Stack{first: len(s.frames), N: int(n), at: r.at.Offset, batch: r.b.Number, index: r.at.Event}
	for range n {
		var pc, function, file, line uint64
		if !r.numbers(&pc, &function, &file, &line) {
			s.frames = s.frames[:stack.first]
			return false
		}
		f, same := s.frame(pc, function, file, line)
		if !same {
			r.l.judge.Add(problem.Warning, problem.FrameConflict, r.at, "stack %d: PC %#x has a different function, file or line than before; the first one is used", id, pc)
		}
		s.frames = append(s.frames, f)
	}
	if id == 0 {
		r.l.judge.Add(problem.Error, problem.ZeroID, r.at, "stack with ID 0, which stands for no stack")
		return r.l.judge.GoesOn()
	}
	s.ids.Add(id)
	s.list = append(s.list, stack)
	return r.l.judge.GoesOn()
}

// addSample reads a sample of the CPU profiler.
func (r *content) addSample(raw.Type) bool {
	var time uint64
	s := Sample{offset: r.at.Offset, batch: r.b.Number, index: r.at.Event}
	if !r.numbers(&time, &s.M, &s.P, &s.G, &s.Stack) {
		return false
	}
	s.Time = int64(time)
	r.l.g.Samples = append(r.l.g.Samples, s)
	return true
}

// addSync reads a frequency or a clock snapshot.
func (r *content) addSync(t raw.Type) bool {
	c := &r.l.g.Clock
	switch {
	case t == raw.EvFrequency:
		var perSecond uint64
		if !r.numbers(&perSecond) {
			return false
		}
		if c.known {
			r.l.judge.Add(problem.Error, problem.DuplicateSync, r.at, "second Frequency of the generation")
			return r.l.judge.GoesOn()
		}
		if perSecond == 0 {
			r.l.judge.Add(problem.Warning, problem.BadSync, r.at, "Frequency of 0 ticks per second")
		}
		c.setFrequency(perSecond)
	case t == raw.EvClockSnapshot && r.l.version >= raw.Go125:
		var dt, mono, sec, nsec uint64
		if !r.numbers(&dt, &mono, &sec, &nsec) {
			return false
		}
		if c.HasSnapshot {
			r.l.judge.Add(problem.Error, problem.DuplicateSync, r.at, "second ClockSnapshot of the generation")
			return r.l.judge.GoesOn()
		}
		if nsec >= 1e9 {
			r.l.judge.Add(problem.Warning, problem.BadSync, r.at, "ClockSnapshot with %d nanoseconds in addition to the seconds", nsec)
		}
		c.HasSnapshot, c.snapshot, c.sec, c.nsec = true, r.b.Time+dt, sec, nsec
	default:
		return r.fail(problem.UnknownEvent, "%s where only Frequency and ClockSnapshot may be", EventName(t))
	}
	return true
}

// experimental looks at a batch of an experiment.
func (r *content) experimental(experiment byte) {
	at := r.at
	at.Event = -1
	at.Offset -= int64(r.b.Header)
	j := &r.l.judge
	if r.l.version < raw.Go123 {
		j.Add(problem.Warning, problem.Version, at, "ExperimentalBatch in a trace of %v", r.l.version)
	}
	switch {
	case experiment == byte(raw.NoExperiment) || experiment > byte(raw.AllocFree):
		r.l.g.unknown = append(r.l.g.unknown, unknown{at, experiment})
	case j.List != nil && !validAllocFree(r.b):
		j.Add(problem.Warning, problem.BadExperimental, at, "batch of the experiment AllocFree with unexpected content")
	}
}

// validAllocFree reports whether a batch has what the runtime writes for the experiment AllocFree: types, or four
// numbers about the heap (runtime/traceallocfree.go and tracetype.go).
func validAllocFree(b *Batch) bool {
	const types, info = 0, 1
	if b.Size == 0 {
		return false
	}
	pos := 1
	skip := func(n int) (last uint64, ok bool) {
		for range n {
			if last, pos = Number(b.Data, pos); pos < 0 || pos > b.Size {
				return 0, false
			}
		}
		return last, true
	}
	switch b.Data[0] {
	case info:
		_, ok := skip(4)
		return ok && pos == b.Size
	case types:
		for pos < b.Size {
			n, ok := skip(5) // ID, address, size, bytes with pointers, length of the name
			if !ok || n > uint64(b.Size-pos) {
				return false
			}
			pos += int(n)
		}
		return true
	}
	return false
}

// An unknown is a batch of an experiment that is not known.
type unknown struct {
	at         problem.Place
	experiment byte
}

// finishExperiments reports the batches of unknown experiments. Readers accept them in a generation that is not complete;
// else the toolchain's reader panics when asked for them.
func (l *Loader) finishExperiments() {
	for _, u := range l.g.unknown {
		l.judge.Add(problem.Error, problem.BadExperimental, u.at, "batch of the unknown experiment %d", u.experiment)
	}
}

// finishTables completes strings and stacks.
func (l *Loader) finishTables() {
	g := l.g
	at := l.place()
	g.Strings.IDs.Build(func(i int) {
		s := &g.Strings.List[i]
		at.Offset, at.Batch, at.Event = s.at, s.batch, s.index
		l.judge.Add(problem.Error, problem.DuplicateString, at, "string %d is defined twice", g.Strings.IDs.IDs[i])
	})
	g.Stacks.ids.Build(func(i int) {
		s := &g.Stacks.list[i]
		at.Offset, at.Batch, at.Event = s.at, s.batch, s.index
		l.judge.Add(problem.Error, problem.DuplicateStack, at, "stack %d is defined twice", g.Stacks.ids.IDs[i])
	})
	g.Stacks.all(func(f *Frame) {
		for _, name := range [2]uint64{f.Function, f.File} {
			if g.Strings.Has(name) || f.stack >= len(g.Stacks.list) {
				continue
			}
			s := &g.Stacks.list[f.stack]
			at.Offset, at.Batch, at.Event = s.at, s.batch, s.index
			l.judge.AddUnlessUnsure(problem.Error, problem.UnknownString, at, "stack %d has a frame with undefined string %d",
				g.Stacks.ids.IDs[f.stack], name)
		}
	})
}

// finishSamples completes the samples of the CPU profiler.
func (l *Loader) finishSamples() {
	g := l.g
	at := l.place()
	for i := range g.Samples {
		s := &g.Samples[i]
		s.Time = g.Clock.Nanos(uint64(s.Time))
		if !g.Stacks.Has(s.Stack) {
			at.Offset, at.Batch, at.Event = s.offset, s.batch, s.index
			// The toolchain's reader panics when asked for the stack.
			l.judge.AddUnlessUnsure(problem.Error, problem.UnknownStack, at, "sample with undefined stack %d", s.Stack)
		}
	}
	slices.SortFunc(g.Samples, func(a, b Sample) int { return cmp.Compare(a.Time, b.Time) })
}
