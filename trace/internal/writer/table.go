package writer

import (
	"strconv"
	"unicode/utf8"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

// What readers accept.
const (
	maxString = 1 << 10 // bytes of a string
	maxFrames = 128     // of a stack
)

// Bounds of memory.
const (
	maxTables    = 8 << 20 // bytes of strings and stacks after which a generation ends early
	maxPCs       = 1 << 18 // frames that keep their pc beyond a generation
	entrySize    = 32      // what an entry of a map counts as
	maxOperation = 64      // bytes of the text of an operation
)

// tables has the strings and stacks of one generation. IDs begin with 1; 0 is the empty string, and no stack.
type tables struct {
	strings map[string]uint64
	stacks  map[*event.Stack]uint64
	origins map[*event.Origin]uint64 // stacks of one frame, the function that a goroutine starts
	rooted  map[rooted]uint64
	texts   map[operation]uint64 // strings that tell of operations

	pcs    map[event.Frame]uint64 // survives the generation, so that a frame keeps its pc
	lastPC uint64

	lastString, lastStack uint64

	stringBatch, stackBatch batch
	size                    int // of both tables, about, in bytes
}

// A rooted is a stack that ends early, and where its goroutine began. Without an origin it is the last frame of the stack.
type rooted struct {
	stack  *event.Stack
	origin *event.Origin
}

// An operation is what the text of an operation tells.
type operation struct {
	object uint64
	value  int64
}

func newTables() tables {
	return tables{
		strings: map[string]uint64{}, stacks: map[*event.Stack]uint64{}, origins: map[*event.Origin]uint64{},
		rooted: map[rooted]uint64{}, texts: map[operation]uint64{}, pcs: map[event.Frame]uint64{},
	}
}

// reset begins a new generation.
func (t *tables) reset() {
	clear(t.strings)
	clear(t.stacks)
	clear(t.origins)
	clear(t.rooted)
	clear(t.texts)
	if len(t.pcs) > maxPCs {
		clear(t.pcs)
	}
	t.lastString, t.lastStack, t.size = 0, 0, 0
}

// cut returns a string of no more bytes than readers accept.
func (w *Writer) cut(s string) string {
	if len(s) <= maxString {
		return s
	}
	w.stats.Cut++
	n := maxString
	for i := n - 1; i > n-utf8.UTFMax; i-- { // not within a character
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(s[i:n]) {
				n = i
			}
			break
		}
	}
	return s[:n]
}

// string returns the ID of a string. A string that is longer than readers accept is cut.
func (w *Writer) string(s string) uint64 {
	if s == "" {
		return 0
	}
	s = w.cut(s)
	if id, ok := w.tables.strings[s]; ok {
		return id
	}
	id := w.newString(uint64(len(s)))
	w.tables.strings[s] = id
	b := &w.tables.stringBatch
	b.buf = append(b.buf, s...)
	return id
}

// newString begins a new string of a number of bytes, which the caller appends to the table, and returns its ID.
func (w *Writer) newString(n uint64) uint64 {
	t := &w.tables
	t.lastString++
	b := w.tableRoom(&t.stringBatch, raw.EvStrings)
	b.buf = append(b.buf, byte(raw.EvString))
	b.buf = appendNumber(b.buf, t.lastString)
	b.buf = appendNumber(b.buf, n)
	t.size += int(n) + entrySize
	return t.lastString
}

// tableRoom returns the batch of a table, with room for the largest entry.
func (w *Writer) tableRoom(b *batch, first raw.Type) *batch {
	const most = 2*maxNumber + 1 + maxFrames*24 // an entry; a frame has numbers of few bytes
	if b.size()+most > 64<<10 {
		w.flush(b, noID)
	}
	if len(b.buf) == 0 {
		b.begin(w.genBegin)
		b.buf = append(b.buf, byte(first))
	}
	return b
}

// stack returns the ID of a stack.
func (w *Writer) stack(s *event.Stack) uint64 {
	if s == nil {
		return 0
	}
	if id, ok := w.tables.stacks[s]; ok {
		return id
	}
	id := w.newStack(s.Frames, event.Frame{})
	w.tables.stacks[s] = id
	w.tables.size += entrySize
	return id
}

// originStack returns the ID of a stack of one frame: the function that a goroutine starts.
func (w *Writer) originStack(o *event.Origin) uint64 {
	if o == nil {
		return 0
	}
	if id, ok := w.tables.origins[o]; ok {
		return id
	}
	id := w.newStack(nil, o.Start)
	w.tables.origins[o] = id
	w.tables.size += entrySize
	return id
}

// fullStack returns the ID of a goroutine's last known stack. It ends with the function that the goroutine started, from
// which viewers know what goroutine that is, even when the stack was recorded only in part or not at all.
func (w *Writer) fullStack(g *goroutine) uint64 {
	s, o := g.stack, g.origin
	switch {
	case s == nil || len(s.Frames) == 0:
		return w.originStack(o)
	case !s.Truncated && len(s.Frames) <= maxFrames || o == nil || o.Start.IsZero():
		return w.stack(s)
	}
	return w.rootedStack(rooted{s, o}, s.Frames, o.Start)
}

// startStack returns the ID of a stack of one frame, the function that a goroutine started, by what is known of it.
func (w *Writer) startStack(g *goroutine) uint64 {
	if o := g.origin; o != nil && !o.Start.IsZero() {
		return w.originStack(o)
	}
	if g.stack == nil || g.stack.Truncated {
		return 0
	}
	frames := withoutEnd(g.stack.Frames)
	if len(frames) == 0 {
		return 0
	}
	return w.rootedStack(rooted{g.stack, nil}, nil, frames[len(frames)-1])
}

// rootedStack returns the ID of a stack of frames and a root.
func (w *Writer) rootedStack(key rooted, frames []event.Frame, root event.Frame) uint64 {
	if id, ok := w.tables.rooted[key]; ok {
		return id
	}
	id := w.newStack(frames, root)
	w.tables.rooted[key] = id
	w.tables.size += entrySize
	return id
}

// ownStackKinds are the kinds whose stack is that of the goroutine they are about.
var ownStackKinds = event.KindsOf(event.GoStatus, event.GoStop, event.GoBlock, event.GoSyscallBegin).Union(operations)

// stackEnd is the function at the end of all stacks. The Go tracer leaves it out, so that stacks end with the function that
// the goroutine started.
const stackEnd = "runtime.goexit"

// withoutEnd returns the frames of a stack without stackEnd, if they are more than that.
func withoutEnd(frames []event.Frame) []event.Frame {
	if n := len(frames); n > 1 && frames[n-1].Func == stackEnd {
		return frames[:n-1]
	}
	return frames
}

// newStack adds a stack of frames and a root, which may be zero.
func (w *Writer) newStack(frames []event.Frame, root event.Frame) uint64 {
	t := &w.tables
	frames = withoutEnd(frames)
	n := len(frames)
	if !root.IsZero() {
		n++
	}
	if n == 0 {
		return 0
	}
	if n > maxFrames {
		w.stats.Cut++
		frames = frames[:maxFrames-(n-len(frames))]
		n = maxFrames
	}
	b := w.tableRoom(&t.stackBatch, raw.EvStacks)
	before := len(b.buf)
	t.lastStack++
	b.buf = append(b.buf, byte(raw.EvStack))
	b.buf = appendNumber(b.buf, t.lastStack)
	b.buf = appendNumber(b.buf, uint64(n))
	for i := range n {
		f := &root
		if i < len(frames) {
			f = &frames[i]
		}
		b.buf = appendNumber(b.buf, t.pc(f))
		b.buf = appendNumber(b.buf, w.string(f.Func))
		b.buf = appendNumber(b.buf, w.string(f.File))
		b.buf = appendNumber(b.buf, uint64(min(max(f.Line, 0), 1<<31)))
	}
	t.size += len(b.buf) - before
	return t.lastStack
}

// firstPC is the first pc that is given to a frame. There are no addresses so low in programs, and none is 0.
const firstPC = 1 << 12

// pc returns the program counter that stands for a frame. Readers take what they know of a pc from the first frame that
// has it, so each frame has its own, inlined ones too.
func (t *tables) pc(f *event.Frame) uint64 {
	if pc, ok := t.pcs[*f]; ok {
		return pc
	}
	t.lastPC++
	pc := firstPC + t.lastPC
	t.pcs[*f] = pc
	return pc
}

// operation returns the ID of the text of an operation: its object in hexadecimal and its value, those that are not 0.
func (w *Writer) operation(object uint64, value int64) uint64 {
	key := operation{object, value}
	if id, ok := w.tables.texts[key]; ok {
		return id
	}
	var room [maxOperation]byte
	text := room[:0]
	if object != 0 {
		text = strconv.AppendUint(append(text, "0x"...), object, 16)
	}
	if value != 0 {
		if len(text) > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendInt(text, value, 10)
	}
	id := uint64(0)
	if len(text) > 0 {
		id = w.newString(uint64(len(text)))
		b := &w.tables.stringBatch
		b.buf = append(b.buf, text...)
	}
	w.tables.texts[key] = id
	w.tables.size += entrySize
	return id
}
