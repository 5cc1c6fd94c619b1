package perfetto

import (
	"math"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/timeline"
)

// interner assigns numbers to recurring data. A number is never reused in a trace. Categories and keys have fixed numbers:
// their values plus 1.
type interner struct {
	last    uint64 // the number assigned last
	size    int    // bytes of stored text, plus an overhead per entry
	names   map[nameKey]uint64
	strings [numPools]map[string]uint64
	frames  map[event.Frame]uint64
	stacks  map[*event.Stack]uint64
	fresh   []byte // the fields of InternedData that go with the next packet
}

type nameKey struct{ lead, text string }

// pool is one of the string tables of InternedData.
type pool uint8

const (
	poolFunctions pool = iota
	poolSources
	poolValues
	numPools
)

var poolFields = [numPools]uint64{poolFunctions: internedFunctions, poolSources: internedSources, poolValues: internedStrings}

// Bounds of what is kept.
const (
	maxInterned   = 16 << 20 // bytes, roughly
	sizeOfEntry   = 64
	sizeOfPointer = 8
)

func (in *interner) init() {
	in.size = 0
	in.names = map[nameKey]uint64{}
	for i := range in.strings {
		in.strings[i] = map[string]uint64{}
	}
	in.frames = map[event.Frame]uint64{}
	in.stacks = map[*event.Stack]uint64{}
	in.fresh = in.fresh[:0]
	for c := range timeline.NumCategories {
		in.entry(internedCategories, uint64(c)+1, "", c.String())
	}
	for k := range timeline.NumKeys {
		in.entry(internedKeys, uint64(k)+1, "", k.String())
	}
}

func (in *interner) full() bool { return in.size > maxInterned }

// entry adds a numbered text to the data of the next packet.
func (in *interner) entry(field, id uint64, lead, text string) {
	b, m := openMessage(in.fresh, field)
	b = appendUint(b, entryIID, id)
	b = appendName(b, entryText, timeline.Name{Lead: lead, Text: text})
	in.fresh = closeMessage(b, m)
}

func (in *interner) next(bytes int) uint64 {
	in.last++
	in.size += bytes + sizeOfEntry
	return in.last
}

// name returns the number of a slice's name.
func (in *interner) name(n *timeline.Name) uint64 {
	key := nameKey{n.Lead, n.Text}
	id, ok := in.names[key]
	if !ok {
		id = in.next(len(n.Text))
		in.names[key] = id
		in.entry(internedNames, id, n.Lead, n.Text)
	}
	return id
}

// text returns the number of a text in a pool.
func (in *interner) text(p pool, s string) uint64 {
	id, ok := in.strings[p][s]
	if !ok {
		id = in.next(len(s))
		in.strings[p][s] = id
		in.entry(poolFields[p], id, "", s)
	}
	return id
}

// stack returns the number of a stack, with at most max frames; 0 if it has none.
func (in *interner) stack(s *event.Stack, max int) uint64 {
	if id, ok := in.stacks[s]; ok {
		return id
	}
	frames := s.Frames[:min(max, len(s.Frames))]
	if len(frames) == 0 {
		return 0
	}
	ids := make([]uint64, 0, len(frames)+1)
	if s.Truncated || len(frames) < len(s.Frames) {
		ids = append(ids, in.frame(event.Frame{Func: "…"}))
	}
	for i := len(frames) - 1; i >= 0; i-- {
		ids = append(ids, in.frame(frames[i]))
	}
	id := in.next(len(ids) * sizeOfPointer)
	in.stacks[s] = id
	b, m := openMessage(in.fresh, internedCallstacks)
	b = appendUint(b, entryIID, id)
	for _, frame := range ids {
		b = appendUint(b, callstackFrames, frame)
	}
	in.fresh = closeMessage(b, m)
	return id
}

func (in *interner) frame(f event.Frame) uint64 {
	if id, ok := in.frames[f]; ok {
		return id
	}
	function := in.text(poolFunctions, f.Func)
	var source uint64
	if f.File != "" {
		source = in.text(poolSources, f.File)
	}
	id := in.next(0)
	in.frames[f] = id
	b, m := openMessage(in.fresh, internedFrames)
	b = appendUint(b, entryIID, id)
	b = appendUint(b, frameFunction, function)
	if source != 0 {
		b = appendUint(b, frameSource, source)
	}
	if f.Line > 0 && f.Line <= math.MaxInt32 {
		b = appendUint(b, frameLine, uint64(f.Line))
	}
	in.fresh = closeMessage(b, m)
	return id
}
