package census

import (
	"encoding/binary"
	"path"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
)

// Visible returns the frames of a stack that a Go traceback shows. A stack of hidden frames only, as some of the
// runtime's own goroutines have, is returned whole: an empty stack would tell nothing.
func Visible(stack []goproc.Frame) []goproc.Frame {
	hidden := 0
	for i := range stack {
		if stack[i].Hidden {
			hidden++
		}
	}
	if hidden == 0 || hidden == len(stack) {
		return stack
	}
	visible := make([]goproc.Frame, 0, len(stack)-hidden)
	for i := range stack {
		if !stack[i].Hidden {
			visible = append(visible, stack[i])
		}
	}
	return visible
}

// Package returns the import path of the package that a function belongs to, as far as its symbol name tells.
func Package(function string) string {
	// Type arguments hold import paths of their own.
	if i := strings.IndexByte(function, '['); i >= 0 {
		function = function[:i]
	}
	slash := strings.LastIndexByte(function, '/') + 1
	dot := strings.IndexByte(function[slash:], '.')
	if dot < 0 {
		return function
	}
	return function[:slash+dot]
}

// ShortFunc returns a function's name without the directories of its import path: "http.(*conn).serve".
func ShortFunc(function string) string {
	return function[strings.LastIndexByte(Package(function), '/')+1:]
}

// ShortFile returns a frame's file as one would name it inside its module when the frame belongs to that module, else
// with its last directory.
func ShortFile(f event.Frame, module string) string {
	dir, base := path.Split(f.File)
	dir = strings.TrimSuffix(dir, "/")
	if rel, ok := strings.CutPrefix(Package(f.Func), module+"/"); ok && module != "" && strings.HasSuffix(dir, "/"+rel) {
		return rel + "/" + base
	}
	if dir == "" {
		return base
	}
	return path.Join(path.Base(dir), base)
}

// standard reports whether a package belongs to the Go distribution, judging by its import path.
func standard(pkg, module string) bool {
	if pkg == "main" || module != "" && (pkg == module || strings.HasPrefix(pkg, module+"/")) {
		return false
	}
	first, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(first, ".")
}

// Place returns the innermost frame that belongs to the program rather than to the Go distribution: the line that its
// authors would look at. module is the path of the program's main module, empty when unknown. Without such a frame
// Place is zero.
func Place(stack []goproc.Frame, module string) event.Frame {
	for i := range stack {
		if !standard(Package(stack[i].Func), module) {
			return stack[i].Frame
		}
	}
	return event.Frame{}
}

// PlaceOf is Place for the stack of an event; without such a frame it is the innermost of all, and zero without a stack.
func PlaceOf(s *event.Stack, module string) event.Frame {
	if s == nil || len(s.Frames) == 0 {
		return event.Frame{}
	}
	for _, f := range s.Frames {
		if !standard(Package(f.Func), module) {
			if f.IsZero() {
				break
			}
			return f
		}
	}
	return s.Frames[0]
}

// stackIDs gives equal stacks equal numbers.
type stackIDs struct {
	all    bool // hidden frames tell stacks apart too
	byAddr map[stackAddr]int
	byText map[string]int
	stacks [][]goproc.Frame // by number, as they are shown
	key    []byte
}

// stackAddr identifies a stack by where it is held: goproc shares one slice between goroutines with the same stack.
type stackAddr struct {
	first *goproc.Frame
	n     int
}

func newStackIDs(all bool) *stackIDs {
	return &stackIDs{all: all, byAddr: map[stackAddr]int{}, byText: map[string]int{}}
}

// id returns the number of a stack.
func (s *stackIDs) id(stack []goproc.Frame) int {
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
