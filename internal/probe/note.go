package probe

import (
	"encoding/binary"
	"unsafe"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// Marks describe the problems of a text of the target, or of all texts of a note. Zero means no problems.
type Marks uint32

const (
	MarkCut        = Marks(csrc.ProbesLoupeMarkLOUPE_CUT)        // only the beginning was read
	MarkUnreadable = Marks(csrc.ProbesLoupeMarkLOUPE_UNREADABLE) // memory could not be read
	MarkImpossible = Marks(csrc.ProbesLoupeMarkLOUPE_IMPOSSIBLE) // the length is impossible
	MarkFull       = Marks(csrc.ProbesLoupeMarkLOUPE_FULL)       // the note had no room for the text
	MarkSecret     = Marks(csrc.ProbesLoupeMarkLOUPE_SECRET)     // of a note: the goroutine is in secret mode (runtime/secret); all texts are empty
)

// A Note is a record of a set. Its payload is read in the order in which the C half wrote it. A note is valid only
// during the call of Set.Decode.
type Note struct {
	Time  int64        // Unix nanoseconds
	G     uint64       // the goroutine, or 0
	TID   int32        // the thread
	What  uint8        // the kind of the note, defined by the set
	Marks Marks        // the problems of its texts
	Stack *event.Stack // nil if the C half has set none, or if its addresses were lost

	payload []byte
	short   bool // more was read than the payload contains
}

// NewNote returns a note with a payload, for tests of what decodes it.
func NewNote(what uint8, goroutine uint64, time int64, payload []byte) *Note {
	return &Note{What: what, G: goroutine, Time: time, payload: payload}
}

// A Text is a string or other bytes of the target.
type Text struct {
	Bytes  []byte // the bytes that were read; hostile, and valid as long as the note
	Length uint64 // the length in the target
	Marks  Marks
}

// Word returns the next word of the payload.
func (n *Note) Word() uint64 {
	if len(n.payload) < 8 {
		n.payload, n.short = nil, true
		return 0
	}
	v := binary.LittleEndian.Uint64(n.payload)
	n.payload = n.payload[8:]
	return v
}

// Text returns the next text of the payload.
func (n *Note) Text() Text {
	const size = int(unsafe.Sizeof(csrc.Text{}))
	if len(n.payload) < size {
		n.payload, n.short = nil, true
		return Text{}
	}
	stored := int(binary.LittleEndian.Uint32(n.payload))
	t := Text{Marks: Marks(binary.LittleEndian.Uint32(n.payload[4:])), Length: binary.LittleEndian.Uint64(n.payload[8:])}
	padded := (stored + 7) &^ 7
	if padded < 0 || padded > len(n.payload)-size {
		n.payload, n.short = nil, true
		return Text{}
	}
	t.Bytes = n.payload[size : size+stored : size+stored]
	n.payload = n.payload[size+padded:]
	return t
}

// More reports whether the payload has unread data.
func (n *Note) More() bool { return len(n.payload) > 0 }

// SetCounts are the counts of the notes of one set.
type SetCounts struct {
	event.Counts

	// Cut, NotRead, Impossible and Full are the numbers of notes received with each mark.
	Cut, NotRead, Impossible, Full uint64
	// Garbled is the number of notes whose payload was not what the set's Go half expected.
	Garbled uint64
}

// Add adds the counts of another set.
func (c *SetCounts) Add(n SetCounts) {
	c.Produced += n.Produced
	c.Received += n.Received
	c.Lost += n.Lost
	c.Unreadable += n.Unreadable
	c.Cut += n.Cut
	c.NotRead += n.NotRead
	c.Impossible += n.Impossible
	c.Full += n.Full
	c.Garbled += n.Garbled
}

// note passes a record of a set to the set.
func (d *decoder) note(r *csrc.Record, raw []byte) {
	i := int(r.Kind - csrc.KindSet)
	counts := &d.noted[i]
	size := int(r.Words) * 8
	if size < recordSize || size > len(raw) || d.sets[i].Decode == nil {
		counts.Garbled++
		return
	}
	n := &d.current
	*n = Note{Time: int64(r.Time) + d.offset, G: r.G, TID: int32(r.Tid), What: r.Reason, Marks: Marks(r.Flags), Stack: d.stack(r.Stack), payload: raw[recordSize:size]}
	counts.mark(n.Marks)
	if d.allocated != nil {
		d.allocated(r.G, r.Value, r.Arg)
	}
	d.sets[i].Decode(n)
	if n.short {
		counts.Garbled++
	}
}

func (c *SetCounts) mark(m Marks) {
	if m == 0 {
		return
	}
	c.Cut += uint64(m & MarkCut / MarkCut)
	c.NotRead += uint64(m & MarkUnreadable / MarkUnreadable)
	c.Impossible += uint64(m & MarkImpossible / MarkImpossible)
	c.Full += uint64(m & MarkFull / MarkFull)
}

// isNote reports whether a record belongs to one of the session's sets.
func isNote(kind uint8, sets int) bool {
	return int(kind)-int(csrc.KindSet) >= 0 && int(kind)-int(csrc.KindSet) < sets
}
