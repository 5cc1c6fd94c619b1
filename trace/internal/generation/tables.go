package generation

import (
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/internal/idtable"
)

// Limits of the runtime, above which readers refuse a trace: internal/trace/tracev2 in the Go tree.
const (
	maxBatchSize   = 64 << 10
	maxStringSize  = 1 << 10
	maxStackFrames = 128
)

// Strings are the strings of a generation.
type Strings struct {
	IDs  idtable.Index // of List
	List []String
}

// A String is a string of the generation.
type String struct {
	Data []byte // in a chunk of the Input
	// Text is Data once it was asked for.
	Text  string
	Made  bool  // Text is valid
	at    int64 // offset in the trace
	batch int
	index int
}

// Find returns a string by its ID; nil when there is none.
func (s *Strings) Find(id uint64) *String {
	if i := s.IDs.Find(id); i >= 0 {
		return &s.List[i]
	}
	return nil
}

// Text returns a string by its ID, the empty one when there is none.
func (s *Strings) Text(id uint64) string {
	str := s.Find(id)
	if str == nil {
		return ""
	}
	if !str.Made {
		str.Text, str.Made = string(str.Data), true
	}
	return str.Text
}

// Has reports whether an ID is that of a string, or 0, which stands for the empty one.
func (s *Strings) Has(id uint64) bool { return id == 0 || s.IDs.Find(id) >= 0 }

func (s *Strings) reset() {
	s.IDs.Reset()
	clear(s.List)
	s.List = s.List[:0]
}

// Stacks are the stacks of a generation.
type Stacks struct {
	ids    idtable.Index
	list   []Stack
	frames []*Frame // of all stacks, one after the other
	byPC   idtable.Table[Frame]
	blocks [][]Frame // the frames themselves
	unused []Frame   // the rest of the last block
}

// A Stack is a stack of the generation, and what a reader has made of it.
type Stack struct {
	first, N int // its frames
	// Stack and Origins are what was made of it.
	Stack   *event.Stack
	Made    bool
	Wait    string // the wait reason that the stack tells, of a block with the reason WaitOf
	WaitOf  uint64
	at      int64 // offset in the trace
	batch   int
	index   int
	Origins map[uint64]*event.Origin // of goroutines created here, by the ID of the stack that they start with
}

// A Frame is what the trace says of a program counter.
type Frame struct {
	Function, File, Line uint64
	// Made is the frame once it was asked for.
	Made  event.Frame
	Hash  uint64
	stack int // the first stack that it is in
}

// Find returns a stack by its ID; nil when there is none.
func (s *Stacks) Find(id uint64) *Stack {
	if i := s.ids.Find(id); i >= 0 {
		return &s.list[i]
	}
	return nil
}

// Has reports whether an ID is that of a stack, or 0, which stands for none.
func (s *Stacks) Has(id uint64) bool { return id == 0 || s.ids.Find(id) >= 0 }

// Of returns the frames of a stack.
func (s *Stacks) Of(stack *Stack) []*Frame {
	return s.frames[stack.first : stack.first+stack.N]
}

// frameBlock is how many frames are allocated at once.
const frameBlock = 256

// frame returns the frame of a program counter. The first one that the trace has for it counts; same reports whether
// this one is the same.
func (s *Stacks) frame(pc, function, file, line uint64) (f *Frame, same bool) {
	if f = s.byPC.Find(pc); f != nil {
		return f, f.Function == function && f.File == file && f.Line == line
	}
	if len(s.unused) == 0 {
		s.unused = make([]Frame, frameBlock)
		s.blocks = append(s.blocks, s.unused)
	}
	f, s.unused = &s.unused[0], s.unused[1:]
	*f = Frame{Function: function, File: file, Line: line, stack: len(s.list)}
	s.byPC.Add(pc, f)
	return f, true
}

// all calls f with each frame, in the order in which the trace has them.
func (s *Stacks) all(f func(*Frame)) {
	for i, b := range s.blocks {
		if i == len(s.blocks)-1 {
			b = b[:len(b)-len(s.unused)]
		}
		for j := range b {
			f(&b[j])
		}
	}
}

func (s *Stacks) reset() {
	s.ids.Reset()
	clear(s.list)
	s.list = s.list[:0]
	clear(s.frames)
	s.frames = s.frames[:0]
	s.byPC.Clear()
	s.blocks, s.unused = nil, nil
}
