package trace

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"github.com/loupe-go/loupe/trace/raw"
)

// unreadable handles what is no header of a batch. It reports whether the trace ends here.
func (l *modelLoader) unreadable(h modelHeader) bool {
	at := l.place()
	at.batch = l.batches
	left := l.in.size()
	switch {
	case h.fault == CodeTruncated && h.kind == raw.EvExperimentalBatch && left == 1:
		// Readers take this for the end.
		l.judge.add(Warning, CodeTruncated, at, "the trace ends within the header of a batch")
		l.in.take(left)
		l.endOfTrace()
		return true
	case h.fault == CodeTruncated:
		l.judge.add(Error, CodeTruncated, at, "the trace ends within the header of a batch")
	case h.fault == CodeOverflow:
		l.judge.add(Error, CodeOverflow, at, "header of a batch with a number of more than 64 bits")
	case h.faultValue < len(modelSpecs) && modelSpecs[h.faultValue].name != "":
		l.judge.add(Error, CodeFraming, at, "%s where a batch must begin", modelSpecs[h.faultValue].name)
	default:
		l.judge.add(Error, CodeFraming, at, "byte %d where a batch must begin", h.faultValue)
	}
	l.broken = true
	if l.judge.list == nil {
		return true
	}
	l.g.unsure = true
	l.resync()
	return false
}

// resync leaves out input until a batch seems to begin, or all.
func (l *modelLoader) resync() {
	in := l.in
	in.take(1)
	keep := len(in.used)
	for in.need(1) {
		in.need(modelMaxHeader + modelMaxBatch + 1)
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
		in.need(modelMaxHeader + modelMaxBatch + 1)
		if l.seemsBatch() {
			return
		}
		in.take(1)
	}
}

// seemsBatch reports whether what comes next may well be a batch, with another one behind it.
func (l *modelLoader) seemsBatch() bool {
	h := l.peek()
	n := h.length
	if h.kind != raw.EvEndOfGeneration {
		if !l.plausible(&h) || h.size == 0 || n+int(h.size) > l.in.size() {
			return false
		}
		first := raw.Type(l.in.buf[l.in.pos+n])
		if h.kind == raw.EvEventBatch && modelSpecs[first].args == 0 && !modelFirst(first) {
			return false
		}
		n += int(h.size)
	}
	after := l.peekAt(n)
	return l.in.size() == n || l.plausible(&after)
}

// modelFirst reports whether an event type says that its batch is none of a thread.
func modelFirst(t raw.Type) bool {
	switch t {
	case raw.EvStrings, raw.EvStacks, raw.EvCPUSamples, raw.EvFrequency, raw.EvSync:
		return true
	}
	return false
}

// plausible reports whether a header may well be that of the next batch.
func (l *modelLoader) plausible(h *modelHeader) bool {
	if h.fault != "" || h.kind == 0 {
		return false
	}
	if h.kind == raw.EvEndOfGeneration {
		return l.version >= raw.Go126
	}
	gen := l.g.number
	if gen == 0 {
		gen = l.last
	}
	// A generation takes less than 2^36 ticks, which are 68 seconds or more.
	const long = 1 << 36
	min := l.g.minTime
	return h.size <= modelMaxBatch && (h.gen == gen || h.gen == gen+1) && (min == 0 || h.time+long > min && h.time < min+long) &&
		(h.kind == raw.EvEventBatch || h.experiment == byte(raw.AllocFree))
}

// modelHopeless is the size above which that of a batch is not believed.
const modelHopeless = 4 * modelMaxBatch

// batch takes a batch into the generation.
func (l *modelLoader) batch(h modelHeader) {
	g, in := l.g, l.in
	at := l.place()
	at.batch, at.thread = l.batches, h.m
	if h.size > modelMaxBatch {
		l.judge.add(Error, CodeBatchSize, at, "batch of %d bytes, more than %d", h.size, modelMaxBatch)
		l.broken = true
		switch {
		case l.judge.list == nil:
			return
		case h.size > modelHopeless:
			g.unsure = true
			l.resync()
			return
		}
	}
	in.take(h.length)
	if !in.need(int(h.size)) {
		l.judge.add(Error, CodeTruncated, at, "the trace ends within a batch: %d bytes of %d are missing", int(h.size)-in.size(), h.size)
		l.broken = true
		g.unsure = true
		in.take(in.size())
		return
	}
	b := modelBatch{size: int(h.size), time: h.time, offset: in.offset(), number: l.batches, header: uint8(h.length)}
	b.data = in.buf[in.pos : in.pos+b.size+modelTail]
	in.take(b.size)
	l.batches++
	g.batches++
	if g.minTime == 0 || h.time < g.minTime {
		g.minTime = h.time
	}
	r := modelContent{l: l, b: &b, at: at}
	r.at.offset, r.at.event = b.offset, 0
	if h.kind == raw.EvExperimentalBatch {
		r.experimental(h.experiment)
		return
	}
	first := raw.Type(0)
	if b.size > 0 {
		first = raw.Type(b.data[0])
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
		s.batches = append(s.batches, b)
	}
}

// A modelContent reads a batch that has something else than events of a thread.
type modelContent struct {
	l   *modelLoader
	b   *modelBatch
	at  modelPlace // of the entry that is being read
	pos int        // index in the batch's data
	// what is the entry that is being read.
	what string
}

// each calls add for each entry of the batch, which are of type t, or of any for 0, until it returns false. The batch's
// first byte is left out.
func (r *modelContent) each(t raw.Type, add func(t raw.Type) bool) {
	for r.pos++; r.pos < r.b.size; {
		r.at.event++
		r.at.offset = r.b.offset + int64(r.pos)
		got := raw.Type(r.b.data[r.pos])
		r.what = modelName(got)
		if t != 0 && got != t {
			r.fail(CodeUnknownEvent, "%s in a batch of %s events", modelName(got), modelName(t))
			return
		}
		r.pos++
		if !add(got) {
			return
		}
	}
}

// modelName returns the name of an event type.
func modelName(t raw.Type) string {
	if name := modelSpecs[t].name; name != "" {
		return name
	}
	return "event of type " + strconv.Itoa(int(t))
}

// fail reports an Error in the current entry, for which the rest of the batch is left out. It returns false.
func (r *modelContent) fail(code Code, format string, args ...any) bool {
	r.l.judge.add(Error, code, r.at, format, args...)
	r.l.g.unsure = true
	return false
}

// number reads a number.
func (r *modelContent) number() (uint64, bool) {
	x, next := modelNumber(r.b.data, min(r.pos, r.b.size))
	if next >= 0 && next <= r.b.size {
		r.pos = next
		return x, true
	}
	if code := modelNumberFault(r.b.data, r.pos, r.b.size); code == CodeOverflow {
		return 0, r.fail(code, "%s with a number of more than 64 bits", r.what)
	}
	return 0, r.fail(CodeCutOff, "%s is cut off by the end of its batch", r.what)
}

// numbers reads several numbers.
func (r *modelContent) numbers(to ...*uint64) bool {
	for _, x := range to {
		var ok bool
		if *x, ok = r.number(); !ok {
			return false
		}
	}
	return true
}

// addString reads a string.
func (r *modelContent) addString(raw.Type) bool {
	var id, n uint64
	if !r.numbers(&id, &n) {
		return false
	}
	if n > modelMaxString {
		r.l.judge.add(Error, CodeLongString, r.at, "string %d has %d bytes, more than %d", id, n, modelMaxString)
	}
	if n > uint64(r.b.size-r.pos) {
		return r.fail(CodeCutOff, "string %d is cut off by the end of its batch", id)
	}
	data := r.b.data[r.pos : r.pos+int(n)]
	r.pos += int(n)
	if id == 0 {
		r.l.judge.add(Error, CodeZeroID, r.at, "string with ID 0, which means none")
		return r.l.judge.goesOn()
	}
	s := &r.l.g.strings
	s.ids.add(id)
	s.list = append(s.list, modelString{data: data, at: r.at.offset, batch: r.b.number, index: r.at.event})
	return r.l.judge.goesOn()
}

// addStack reads a stack.
func (r *modelContent) addStack(raw.Type) bool {
	var id, n uint64
	if !r.numbers(&id, &n) {
		return false
	}
	if n > modelMaxFrames {
		r.l.judge.add(Error, CodeLongStack, r.at, "stack %d has %d frames, more than %d", id, n, modelMaxFrames)
	}
	if n > uint64(r.b.size-r.pos) {
		return r.fail(CodeCutOff, "stack %d is cut off by the end of its batch", id)
	}
	s := &r.l.g.stacks
	stack := modelStack{first: len(s.frames), n: int(n), at: r.at.offset, batch: r.b.number, index: r.at.event}
	for range n {
		var pc, function, file, line uint64
		if !r.numbers(&pc, &function, &file, &line) {
			s.frames = s.frames[:stack.first]
			return false
		}
		f, same := s.frame(pc, function, file, line)
		if !same {
			r.l.judge.add(Warning, CodeFrameConflict, r.at, "stack %d: PC %#x has another function, file or line than before, which counts", id, pc)
		}
		s.frames = append(s.frames, f)
	}
	if id == 0 {
		r.l.judge.add(Error, CodeZeroID, r.at, "stack with ID 0, which means none")
		return r.l.judge.goesOn()
	}
	s.ids.add(id)
	s.list = append(s.list, stack)
	return r.l.judge.goesOn()
}

// addSample reads a sample of the CPU profiler.
func (r *modelContent) addSample(raw.Type) bool {
	var time uint64
	s := modelSample{offset: r.at.offset, batch: r.b.number, index: r.at.event}
	if !r.numbers(&time, &s.m, &s.p, &s.g, &s.stack) {
		return false
	}
	s.time = int64(time)
	r.l.g.samples = append(r.l.g.samples, s)
	return true
}

// addSync reads a frequency or a clock snapshot.
func (r *modelContent) addSync(t raw.Type) bool {
	c := &r.l.g.clock
	switch {
	case t == raw.EvFrequency:
		var perSecond uint64
		if !r.numbers(&perSecond) {
			return false
		}
		if c.known {
			r.l.judge.add(Error, CodeDuplicateSync, r.at, "second Frequency of the generation")
			return r.l.judge.goesOn()
		}
		if perSecond == 0 {
			r.l.judge.add(Warning, CodeBadSync, r.at, "Frequency of 0 ticks a second")
		}
		c.setFrequency(perSecond)
	case t == raw.EvClockSnapshot && r.l.version >= raw.Go125:
		var dt, mono, sec, nsec uint64
		if !r.numbers(&dt, &mono, &sec, &nsec) {
			return false
		}
		if c.hasSnapshot {
			r.l.judge.add(Error, CodeDuplicateSync, r.at, "second ClockSnapshot of the generation")
			return r.l.judge.goesOn()
		}
		if nsec >= 1e9 {
			r.l.judge.add(Warning, CodeBadSync, r.at, "ClockSnapshot with %d nanoseconds beside the seconds", nsec)
		}
		c.hasSnapshot, c.snapshot, c.sec, c.nsec = true, r.b.time+dt, sec, nsec
	default:
		return r.fail(CodeUnknownEvent, "%s where only Frequency and ClockSnapshot may be", modelName(t))
	}
	return true
}

// experimental looks at a batch of an experiment.
func (r *modelContent) experimental(experiment byte) {
	at := r.at
	at.event = -1
	at.offset -= int64(r.b.header)
	j := &r.l.judge
	if r.l.version < raw.Go123 {
		j.add(Warning, CodeVersion, at, "ExperimentalBatch in a trace of %v", r.l.version)
	}
	switch {
	case experiment == byte(raw.NoExperiment) || experiment > byte(raw.AllocFree):
		r.l.g.unknown = append(r.l.g.unknown, modelUnknown{at, experiment})
	case j.list != nil && !modelValidAllocFree(r.b):
		j.add(Warning, CodeBadExperimental, at, "batch of the experiment AllocFree with unexpected content")
	}
}

// modelValidAllocFree reports whether a batch has what the runtime writes for the experiment AllocFree: types, or four
// numbers about the heap (runtime/traceallocfree.go and tracetype.go).
func modelValidAllocFree(b *modelBatch) bool {
	const types, info = 0, 1
	if b.size == 0 {
		return false
	}
	pos := 1
	skip := func(n int) (last uint64, ok bool) {
		for range n {
			if last, pos = modelNumber(b.data, pos); pos < 0 || pos > b.size {
				return 0, false
			}
		}
		return last, true
	}
	switch b.data[0] {
	case info:
		_, ok := skip(4)
		return ok && pos == b.size
	case types:
		for pos < b.size {
			n, ok := skip(5) // ID, address, size, bytes with pointers, length of the name
			if !ok || n > uint64(b.size-pos) {
				return false
			}
			pos += int(n)
		}
		return true
	}
	return false
}

// A modelUnknown is a batch of an experiment that is not known.
type modelUnknown struct {
	at         modelPlace
	experiment byte
}

// finishExperiments reports the batches of unknown experiments. Readers accept them in a generation that is not complete;
// else the toolchain's reader panics when asked for them.
func (l *modelLoader) finishExperiments() {
	for _, u := range l.g.unknown {
		l.judge.add(Error, CodeBadExperimental, u.at, "batch of the unknown experiment %d", u.experiment)
	}
}

// finishTables completes strings and stacks.
func (l *modelLoader) finishTables() {
	g := l.g
	at := l.place()
	g.strings.ids.build(func(i int) {
		s := &g.strings.list[i]
		at.offset, at.batch, at.event = s.at, s.batch, s.index
		l.judge.add(Error, CodeDuplicateString, at, "string %d is there already", g.strings.ids.list[i])
	})
	g.stacks.ids.build(func(i int) {
		s := &g.stacks.list[i]
		at.offset, at.batch, at.event = s.at, s.batch, s.index
		l.judge.add(Error, CodeDuplicateStack, at, "stack %d is there already", g.stacks.ids.list[i])
	})
	g.stacks.all(func(f *modelFrame) {
		for _, name := range [2]uint64{f.function, f.file} {
			if g.strings.has(name) || f.stack >= len(g.stacks.list) {
				continue
			}
			s := &g.stacks.list[f.stack]
			at.offset, at.batch, at.event = s.at, s.batch, s.index
			l.judge.addUnlessUnsure(Error, CodeUnknownString, at, "stack %d has a frame with string %d, which does not exist",
				g.stacks.ids.list[f.stack], name)
		}
	})
}

// finishSamples completes the samples of the CPU profiler.
func (l *modelLoader) finishSamples() {
	g := l.g
	at := l.place()
	for i := range g.samples {
		s := &g.samples[i]
		s.time = g.clock.nanos(uint64(s.time))
		if !g.stacks.has(s.stack) {
			at.offset, at.batch, at.event = s.offset, s.batch, s.index
			// The toolchain's reader panics when asked for the stack.
			l.judge.addUnlessUnsure(Error, CodeUnknownStack, at, "sample with stack %d, which does not exist", s.stack)
		}
	}
	slices.SortFunc(g.samples, func(a, b modelSample) int { return cmp.Compare(a.time, b.time) })
}
