package reader

import (
	"hash/maphash"
	"weak"

	"github.com/loupe-go/loupe/event"
)

// An Intern has one of each stack, origin and name. What nobody refers to any more it forgets.
type Intern struct {
	seed    maphash.Seed
	stacks  map[uint64]weak.Pointer[event.Stack] // by hash; in case of a collision by the next number
	origins map[event.Origin]weak.Pointer[event.Origin]
	// names are those of this generation, older those of the one before.
	names, older map[string]string
}

// NewIntern returns an empty Intern.
func NewIntern() *Intern {
	return &Intern{
		seed: maphash.MakeSeed(), stacks: map[uint64]weak.Pointer[event.Stack]{},
		origins: map[event.Origin]weak.Pointer[event.Origin]{}, names: map[string]string{},
	}
}

// Generation is called when a generation has been used.
func (in *Intern) Generation() {
	in.older, in.names = in.names, make(map[string]string, len(in.names))
	for k, p := range in.stacks {
		if p.Value() == nil {
			delete(in.stacks, k)
		}
	}
	for k, p := range in.origins {
		if p.Value() == nil {
			delete(in.origins, k)
		}
	}
}

// name returns the string of some bytes.
func (in *Intern) name(b []byte) string {
	if s, ok := in.names[string(b)]; ok {
		return s
	}
	s, ok := in.older[string(b)]
	if !ok {
		s = string(b)
	}
	in.names[s] = s
	return s
}

// Origin returns the one origin that is equal to o.
func (in *Intern) Origin(o event.Origin) *event.Origin {
	if p := in.origins[o].Value(); p != nil {
		return p
	}
	p := &event.Origin{}
	*p = o
	in.origins[o] = weak.Make(p)
	return p
}

// Stack returns the one stack of some frames, whose hash is given. It does not keep frames.
func (in *Intern) Stack(frames []event.Frame, truncated bool, hash uint64) *event.Stack {
	for ; ; hash++ {
		p, ok := in.stacks[hash]
		if !ok {
			break
		}
		s := p.Value()
		if s == nil {
			break
		}
		if s.Truncated == truncated && sameFrames(s.Frames, frames) {
			return s
		}
	}
	s := &event.Stack{Frames: append([]event.Frame(nil), frames...), Truncated: truncated}
	in.stacks[hash] = weak.Make(s)
	return s
}

func sameFrames(a, b []event.Frame) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// FrameHash returns the hash of a frame.
func (in *Intern) FrameHash(f *event.Frame) uint64 {
	h := maphash.String(in.seed, f.Func)
	h = MixHash(h, maphash.String(in.seed, f.File))
	return MixHash(h, uint64(f.Line))
}

// MixHash adds a hash to the hash of what comes before.
func MixHash(h, x uint64) uint64 { return (h^x)*0x9e3779b97f4a7c15 + h>>29 }
