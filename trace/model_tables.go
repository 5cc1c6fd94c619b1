package trace

import "github.com/loupe-go/loupe/event"

// Limits of the runtime, above which readers refuse a trace: internal/trace/tracev2 in the Go tree.
const (
	modelMaxBatch  = 64 << 10
	modelMaxString = 1 << 10
	modelMaxFrames = 128
)

// modelStrings are the strings of a generation.
type modelStrings struct {
	ids  modelIDs
	list []modelString
}

// A modelString is a string.
type modelString struct {
	data []byte
	// text is data once it was asked for.
	text  string
	made  bool
	at    int64 // offset in the trace
	batch int
	index int
}

// find returns a string by its ID; nil when there is none.
func (s *modelStrings) find(id uint64) *modelString {
	if i := s.ids.find(id); i >= 0 {
		return &s.list[i]
	}
	return nil
}

// text returns a string by its ID, the empty one when there is none.
func (s *modelStrings) text(id uint64) string {
	str := s.find(id)
	if str == nil {
		return ""
	}
	if !str.made {
		str.text, str.made = string(str.data), true
	}
	return str.text
}

// has reports whether an ID is that of a string, or 0, which stands for the empty one.
func (s *modelStrings) has(id uint64) bool { return id == 0 || s.ids.find(id) >= 0 }

func (s *modelStrings) reset() {
	s.ids.reset()
	clear(s.list)
	s.list = s.list[:0]
}

// modelStacks are the stacks of a generation.
type modelStacks struct {
	ids    modelIDs
	list   []modelStack
	frames []*modelFrame // of all stacks, one after the other
	byPC   modelTable[modelFrame]
	blocks [][]modelFrame // the frames themselves
	unused []modelFrame   // the rest of the last block
}

// A modelStack is a stack.
type modelStack struct {
	first, n int // its frames
	// stack and origins are what was made of it.
	stack   *event.Stack
	made    bool
	wait    string // the wait reason that the stack tells, of a block with the reason waitOf
	waitOf  uint64
	at      int64 // offset in the trace
	batch   int
	index   int
	origins map[uint64]*event.Origin // of goroutines created here, by the ID of the stack that they start with
}

// A modelFrame is what the trace says of a program counter.
type modelFrame struct {
	pc, function, file, line uint64
	// made is the frame once it was asked for.
	made  event.Frame
	hash  uint64
	stack int // the first stack that it is in
}

// find returns a stack by its ID; nil when there is none.
func (s *modelStacks) find(id uint64) *modelStack {
	if i := s.ids.find(id); i >= 0 {
		return &s.list[i]
	}
	return nil
}

// has reports whether an ID is that of a stack, or 0, which stands for none.
func (s *modelStacks) has(id uint64) bool { return id == 0 || s.ids.find(id) >= 0 }

// of returns the frames of a stack.
func (s *modelStacks) of(stack *modelStack) []*modelFrame {
	return s.frames[stack.first : stack.first+stack.n]
}

// modelFrameBlock is how many frames are allocated at once.
const modelFrameBlock = 256

// frame returns the frame of a program counter. The first one that the trace has for it counts; same reports whether
// this one is the same.
func (s *modelStacks) frame(pc, function, file, line uint64) (f *modelFrame, same bool) {
	if f = s.byPC.find(pc); f != nil {
		return f, f.function == function && f.file == file && f.line == line
	}
	if len(s.unused) == 0 {
		s.unused = make([]modelFrame, modelFrameBlock)
		s.blocks = append(s.blocks, s.unused)
	}
	f, s.unused = &s.unused[0], s.unused[1:]
	*f = modelFrame{pc: pc, function: function, file: file, line: line, stack: len(s.list)}
	s.byPC.add(pc, f)
	return f, true
}

// all calls f with each frame, in the order in which the trace has them.
func (s *modelStacks) all(f func(*modelFrame)) {
	for i, b := range s.blocks {
		if i == len(s.blocks)-1 {
			b = b[:len(b)-len(s.unused)]
		}
		for j := range b {
			f(&b[j])
		}
	}
}

func (s *modelStacks) reset() {
	s.ids.reset()
	clear(s.list)
	s.list = s.list[:0]
	clear(s.frames)
	s.frames = s.frames[:0]
	s.byPC.clear()
	s.blocks, s.unused = nil, nil
}
