package trace

import "github.com/loupe-go/loupe/event"

// readDeep is the number of frames from which on a stack may go on beyond its last frame. The runtime records 128 program
// counters at most, takes some away that are its own, and adds frames of inlined calls.
const readDeep = 120

// text returns a string of the generation.
func (r *readModel) text(id uint64) string { return r.gen.strings.text(id) }

// name returns a string of the generation that comes again in others.
func (r *readModel) name(id uint64) string {
	s := r.gen.strings.find(id)
	if s == nil {
		return ""
	}
	if !s.made {
		s.text, s.made = r.intern.name(s.data), true
	}
	return s.text
}

// stack returns a stack of the generation; nil if it has no frames.
func (r *readModel) stack(id uint64) *event.Stack {
	if id == 0 {
		return nil
	}
	s := r.gen.stacks.find(id)
	if s == nil {
		return nil
	}
	if !s.made {
		r.makeStack(s)
	}
	return s.stack
}

func (r *readModel) makeStack(s *modelStack) {
	s.made = true
	if s.n == 0 {
		return
	}
	frames := r.frames[:0]
	hash := uint64(s.n)
	for _, f := range r.gen.stacks.of(s) {
		r.makeFrame(f)
		frames = append(frames, f.made)
		hash = readMix(hash, f.hash)
	}
	r.frames = frames
	s.stack = r.intern.stack(frames, len(frames) >= readDeep, hash)
}

func (r *readModel) makeFrame(f *modelFrame) {
	if f.hash != 0 {
		return
	}
	f.made = event.Frame{Func: r.name(f.function), File: r.name(f.file), Line: int(readInt(f.line))}
	f.hash = r.intern.frameHash(&f.made) | 1
}

// origin returns where a goroutine comes from, by the IDs of the stacks of its creator and of its own.
func (r *readModel) origin(creator, start uint64) *event.Origin {
	s := r.gen.stacks.find(creator)
	if s != nil {
		if o := s.origins[start]; o != nil {
			return o
		}
	}
	by, own := r.stack(creator), r.stack(start)
	var o event.Origin
	if by != nil {
		o.CreatedBy = by.Frames[0]
	}
	if own != nil {
		o.Start = own.Frames[len(own.Frames)-1]
		o.System = readIsSystem(o.Start.Func)
	}
	if o.CreatedBy.IsZero() && o.Start.IsZero() {
		return nil
	}
	p := r.intern.origin(o)
	if s != nil {
		if s.origins == nil {
			s.origins = map[uint64]*event.Origin{}
		}
		s.origins[start] = p
	}
	return p
}

// rootOrigin returns where a goroutine comes from, as far as its stack tells.
func (r *readModel) rootOrigin(g, stack uint64) *event.Origin {
	o := readRoot(g, r.stack(stack))
	if o.Start.IsZero() {
		return nil
	}
	return r.intern.origin(o)
}

// readMain is the function that goroutine 1 starts with. Traces leave it out of stacks.
const readMain = "runtime.main"

// readRoot returns what a stack tells of where its goroutine comes from.
func readRoot(g uint64, s *event.Stack) (o event.Origin) {
	switch {
	case g == 1:
		o.Start.Func = readMain
	case s != nil && !s.Truncated:
		root := s.Frames[len(s.Frames)-1]
		o.Start = event.Frame{Func: root.Func, File: root.File} // the line is that of a call
		o.System = readIsSystem(o.Start.Func)
	}
	return o
}

// blockReason sets why a goroutine blocks.
func (r *readModel) blockReason(e *event.Event, reason, stack uint64) {
	i := r.gen.strings.ids.find(reason)
	if i < 0 {
		return
	}
	why := &r.reasons[i]
	if !why.known {
		*why = readReasonOf(r.name(reason))
	}
	e.TraceReason, e.Reason = why.trace, why.wait
	if why.wait != "" || why.places == nil {
		return
	}
	s := r.gen.stacks.find(stack)
	if s == nil {
		e.Reason = why.trace
		return
	}
	if s.wait == "" || s.waitOf != reason {
		s.wait, s.waitOf = why.waitAt(s.stack, r.md.version), reason
	}
	e.Reason = s.wait
}
