package census

import (
	"encoding/binary"

	"github.com/loupe-go/loupe/event"
)

// Visible returns the frames of a stack that a Go traceback shows. If all frames are hidden, as for some goroutines of
// the runtime, it returns all of them.
func Visible(stack []event.StackFrame) []event.StackFrame {
	hidden := 0
	for i := range stack {
		if stack[i].Hidden {
			hidden++
		}
	}
	if hidden == 0 || hidden == len(stack) {
		return stack
	}
	visible := make([]event.StackFrame, 0, len(stack)-hidden)
	for i := range stack {
		if !stack[i].Hidden {
			visible = append(visible, stack[i])
		}
	}
	return visible
}

// stackIDs gives equal stacks equal numbers.
type stackIDs struct {
	all    bool // hidden frames tell stacks apart too
	byAddr map[stackAddr]int
	byText map[string]int
	stacks [][]event.StackFrame // by number, as they are shown
	key    []byte
}

// stackAddr identifies a stack by where it is held: goroutines with the same stack share one slice.
type stackAddr struct {
	first *event.StackFrame
	n     int
}

func newStackIDs(all bool) *stackIDs {
	return &stackIDs{all: all, byAddr: map[stackAddr]int{}, byText: map[string]int{}}
}

// id returns the number of a stack.
func (s *stackIDs) id(stack []event.StackFrame) int {
	addr := stackAddr{n: len(stack)}
	if len(stack) > 0 {
		addr.first = &stack[0]
	}
	if id, ok := s.byAddr[addr]; ok {
		return id
	}
	shown := stack
	if !s.all {
		shown = Visible(stack)
	}
	s.key = s.key[:0]
	for i := range shown {
		s.key = appendFrame(s.key, shown[i].Frame)
	}
	id, ok := s.byText[string(s.key)]
	if !ok {
		id = len(s.stacks)
		s.stacks = append(s.stacks, shown)
		s.byText[string(s.key)] = id
	}
	s.byAddr[addr] = id
	return id
}

// appendFrame adds a frame's text with its lengths, so that no choice of names makes two different stacks look equal.
func appendFrame(b []byte, f event.Frame) []byte {
	b = binary.AppendUvarint(b, uint64(len(f.Func)))
	b = append(b, f.Func...)
	b = binary.AppendUvarint(b, uint64(len(f.File)))
	b = append(b, f.File...)
	return binary.AppendVarint(b, int64(f.Line))
}
