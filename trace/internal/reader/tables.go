package reader

import (
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/internal/generation"
)

// DeepStack is the number of frames from which on a stack may go on beyond its last frame. The runtime records 128 program
// counters at most, takes some away that are its own, and adds frames of inlined calls.
const DeepStack = 120

// text returns a string of the generation.
func (r *Reader) text(id uint64) string { return r.gen.Strings.Text(id) }

// name returns a string of the generation that comes again in others.
func (r *Reader) name(id uint64) string {
	s := r.gen.Strings.Find(id)
	if s == nil {
		return ""
	}
	if !s.Made {
		s.Text, s.Made = r.intern.name(s.Data), true
	}
	return s.Text
}

// stack returns a stack of the generation; nil if it has no frames.
func (r *Reader) stack(id uint64) *event.Stack {
	if id == 0 {
		return nil
	}
	s := r.gen.Stacks.Find(id)
	if s == nil {
		return nil
	}
	if !s.Made {
		r.makeStack(s)
	}
	return s.Stack
}

func (r *Reader) makeStack(s *generation.Stack) {
	s.Made = true
	if s.N == 0 {
		return
	}
	frames := r.frames[:0]
	hash := uint64(s.N)
	for _, f := range r.gen.Stacks.Of(s) {
		r.makeFrame(f)
		frames = append(frames, f.Made)
		hash = MixHash(hash, f.Hash)
	}
	r.frames = frames
	s.Stack = r.intern.Stack(frames, len(frames) >= DeepStack, hash)
}

func (r *Reader) makeFrame(f *generation.Frame) {
	if f.Hash != 0 {
		return
	}
	f.Made = event.Frame{Func: r.name(f.Function), File: r.name(f.File), Line: int(Int64(f.Line))}
	f.Hash = r.intern.FrameHash(&f.Made) | 1
}

// origin returns where a goroutine comes from, by the IDs of the stacks of its creator and of its own.
func (r *Reader) origin(creator, start uint64) *event.Origin {
	s := r.gen.Stacks.Find(creator)
	if s != nil {
		if o := s.Origins[start]; o != nil {
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
		o.System = IsSystem(o.Start.Func)
	}
	if o.CreatedBy.IsZero() && o.Start.IsZero() {
		return nil
	}
	p := r.intern.Origin(o)
	if s != nil {
		if s.Origins == nil {
			s.Origins = map[uint64]*event.Origin{}
		}
		s.Origins[start] = p
	}
	return p
}

// rootOrigin returns where a goroutine comes from, as far as its stack tells.
func (r *Reader) rootOrigin(g, stack uint64) *event.Origin {
	o := RootOrigin(g, r.stack(stack))
	if o.Start.IsZero() {
		return nil
	}
	return r.intern.Origin(o)
}

// mainFunction is the function that goroutine 1 starts with. Traces leave it out of stacks.
const mainFunction = "runtime.main"

// RootOrigin returns what a stack tells of where its goroutine comes from.
func RootOrigin(g uint64, s *event.Stack) (o event.Origin) {
	switch {
	case g == 1:
		o.Start.Func = mainFunction
	case s != nil && !s.Truncated:
		root := s.Frames[len(s.Frames)-1]
		o.Start = event.Frame{Func: root.Func, File: root.File} // the line is that of a call
		o.System = IsSystem(o.Start.Func)
	}
	return o
}

// blockReason sets why a goroutine blocks.
func (r *Reader) blockReason(e *event.Event, reason, stack uint64) {
	i := r.gen.Strings.IDs.Find(reason)
	if i < 0 {
		return
	}
	why := &r.reasons[i]
	if !why.known {
		*why = ReasonOf(r.name(reason))
	}
	e.TraceReason, e.Reason = why.Trace, why.wait
	if why.wait != "" || why.places == nil {
		return
	}
	s := r.gen.Stacks.Find(stack)
	if s == nil {
		e.Reason = why.Trace
		return
	}
	if s.Wait == "" || s.WaitOf != reason {
		s.Wait, s.WaitOf = why.WaitAt(s.Stack, r.md.Version), reason
	}
	e.Reason = s.Wait
}
