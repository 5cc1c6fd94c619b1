package flamegraph

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/internal/place"
)

// A frame is a function on a stack. Calls of a function that were inlined have a frame of their own.
type frame struct {
	name, file string
	inlined    bool
}

// Frames that stand for something else than a function.
const (
	rootName    = "all"
	prunedName  = "(pruned)"         // the inner part of stacks that the tree has no room for
	omittedName = "(frames omitted)" // the middle of a stack that is too deep
)

// Limits on the depth of a stack. The middle of a deeper stack is omitted.
const (
	maxOuter = 1000
	maxInner = 1000
)

// frameTable numbers the distinct frames of profiles.
type frameTable struct {
	frames    []frame
	ids       map[frame]int32
	locations map[*profile.Location][]int32 // the outermost first
	stack     []int32
}

func newFrameTable() *frameTable {
	return &frameTable{ids: map[frame]int32{}, locations: map[*profile.Location][]int32{}}
}

// id returns the number of a frame.
func (t *frameTable) id(f frame) int32 {
	id, ok := t.ids[f]
	if !ok {
		id = int32(len(t.frames))
		t.ids[f] = id
		t.frames = append(t.frames, f)
	}
	return id
}

// of returns the frames of a sample, the outermost first. The result is valid until the next call.
func (t *frameTable) of(s *profile.Sample) []int32 {
	t.stack = t.stack[:0]
	for _, l := range slices.Backward(s.Location) {
		ids, ok := t.locations[l]
		if !ok {
			ids = t.at(l)
			t.locations[l] = ids
		}
		t.stack = append(t.stack, ids...)
	}
	if n := len(t.stack); n > maxOuter+maxInner+1 {
		t.stack[maxOuter] = t.id(frame{name: omittedName})
		t.stack = append(t.stack[:maxOuter+1], t.stack[n-maxInner:]...)
	}
	return t.stack
}

// at returns the frames at one address, the outermost first.
func (t *frameTable) at(l *profile.Location) []int32 {
	if len(l.Line) == 0 {
		return []int32{t.id(frame{name: addressName(l)})}
	}
	ids := make([]int32, 0, len(l.Line))
	for i, line := range slices.Backward(l.Line) {
		f := frame{inlined: i < len(l.Line)-1}
		if line.Function != nil {
			f.name, f.file = line.Function.Name, line.Function.Filename
		}
		if f.name == "" {
			f.name = addressName(l)
		}
		ids = append(ids, t.id(f))
	}
	return ids
}

// addressName names a place without a function.
func addressName(l *profile.Location) string {
	switch {
	case l.Mapping != nil && l.Mapping.File != "":
		return fmt.Sprintf("%#x in %s", l.Address, path.Base(l.Mapping.File))
	case l.Address != 0:
		return fmt.Sprintf("%#x", l.Address)
	}
	return "(unknown)"
}

// pkg returns the package of the function; empty for a frame that is not a function.
func (f frame) pkg() string {
	if strings.HasPrefix(f.name, "(") || strings.HasPrefix(f.name, "0x") || f.name == rootName {
		return ""
	}
	return place.Package(f.name)
}

// ofRuntime reports whether a package belongs to the Go runtime.
func ofRuntime(pkg string) bool {
	return pkg == "runtime" || strings.HasPrefix(pkg, "runtime/internal/") || strings.HasPrefix(pkg, "internal/runtime/")
}

// maxText is the maximum size of one text in the page, in bytes.
const maxText = 4 << 10

// clip returns s, or its beginning with a mark if it is longer than maxText.
func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	end := maxText
	for end > maxText-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
