package raw

import (
	"fmt"
	"slices"
	"strings"
)

// An Event is one event as it stands in a trace, which includes the trace's framing (batches, strings, stacks). Nothing
// in it is interpreted.
type Event struct {
	Version Version
	Type    Type
	// Args has the arguments in the order of the specification.
	Args []uint64
	// Data has the bytes of an event with data.
	Data []byte
	// Frames has the frames of a stack event, leaf first.
	Frames []Frame
	// Widths says how many bytes each number took on the wire, in wire order: the arguments, then those of the frames, then
	// the length of the data. Before them comes the length of the event where the wire has it, which is in V1 versions for
	// stacks and for events of four arguments or more. A missing width, or one that is too small, means the least number
	// of bytes; no number takes more than 10.
	Widths []uint8
}

// A Frame is one frame of a stack event.
type Frame struct {
	PC   uint64 // program counter
	Func uint64 // string ID of the function's name
	File uint64 // string ID of the file's name
	Line uint64 // line in the file
}

// Clone returns a copy that shares nothing with ev.
func (ev *Event) Clone() *Event {
	c := *ev
	c.Args = slices.Clone(ev.Args)
	c.Data = slices.Clone(ev.Data)
	c.Frames = slices.Clone(ev.Frames)
	c.Widths = slices.Clone(ev.Widths)
	return &c
}

// Spec returns the specification of the event's type, or nil if the version has no such type.
func (ev *Event) Spec() *Spec {
	specs := ev.Version.Specs()
	if int(ev.Type) >= len(specs) || specs[ev.Type].Name == "" {
		return nil
	}
	return &specs[ev.Type]
}

// String returns the event as it stands in a text trace, without the line feed at its end, or what is wrong with it.
func (ev *Event) String() string {
	if !ev.Version.Valid() {
		return fmt.Sprintf("event of %s: %v", ev.Version, ErrVersion)
	}
	var b strings.Builder
	w := TextWriter{out: outputBuffer{w: &b, buf: make([]byte, 2*maxPlainLine)}, f: ev.Version.format()}
	if err := w.WriteEvent(ev); err != nil {
		return err.Error()
	}
	w.Flush() // to memory, which does not fail
	return strings.TrimSuffix(b.String(), "\n")
}
