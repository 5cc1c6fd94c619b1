package raw

import (
	"fmt"
	"slices"
	"strings"
)

// An Event is a single event as it is stored in a trace. This includes the framing of the trace: batches, strings and
// stacks. The values are not interpreted.
type Event struct {
	Version Version
	Type    Type
	// Args contains the arguments in the order of Spec.Args.
	Args []uint64
	// Data contains the data of an event whose Spec.HasData is set.
	Data []byte
	// Frames contains the frames of an event whose Spec.IsStack is set, innermost first.
	Frames []Frame
	// Widths contains the size in bytes of each number on the wire, in the order of the wire: first the length of the
	// event, but only for stacks and events with four or more arguments in V1 versions, then the arguments, the numbers
	// of the frames, and the length of the data. If a width is missing or too small, the number takes as many bytes as
	// necessary. The maximum is 10 bytes.
	Widths []uint8
}

// A Frame is one frame of a stack event.
type Frame struct {
	PC   uint64 // program counter
	Func uint64 // string ID of the name of the function
	File uint64 // string ID of the name of the file
	Line uint64 // line number in the file
}

// Clone returns a deep copy of ev.
func (ev *Event) Clone() *Event {
	c := *ev
	c.Args = slices.Clone(ev.Args)
	c.Data = slices.Clone(ev.Data)
	c.Frames = slices.Clone(ev.Frames)
	c.Widths = slices.Clone(ev.Widths)
	return &c
}

// Spec returns the specification of the event's type, or nil if the event's version does not have that type.
func (ev *Event) Spec() *Spec {
	specs := ev.Version.Specs()
	if int(ev.Type) >= len(specs) || specs[ev.Type].Name == "" {
		return nil
	}
	return &specs[ev.Type]
}

// String returns the event in the text format, without a final newline. For an invalid event, it returns a description
// of the error.
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
