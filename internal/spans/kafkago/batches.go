package kafkago

import "github.com/loupe-go/loupe/spans"

// batches knows which calls of WriteMessages have messages in which batches.
type batches struct {
	open    map[uint64]*call    // by goroutine: those that have not returned
	members map[uint64][]member // by batch
	last    uint64              // the newest call.id
}

// A call is a call of WriteMessages.
type call struct {
	span     *spans.Span
	id       uint64 // its object
	single   bool   // it has one message
	unread   bool   // its topic could not be read when it began
	async    bool   // it does not wait for its batches
	returned bool
	failed   bool // a batch has failed
	left     int  // number of batches with its messages that have no result yet
}

// A member is a call that has messages in a batch, from a position on.
type member struct {
	call  *call
	first uint64
}

func newBatches() batches {
	return batches{open: map[uint64]*call{}, members: map[uint64][]member{}}
}

// begin takes a call that has begun, and returns it.
func (b *batches) begin(s *spans.Span, single, async bool) *call {
	if len(b.open) >= maxKept { // of goroutines that have panicked
		clear(b.open)
	}
	b.last++
	c := &call{span: s, id: b.last, single: single, async: async}
	b.open[s.G] = c
	return c
}

// end returns the call of a goroutine that returns, or nil.
func (b *batches) end(g uint64) *call {
	c := b.open[g]
	delete(b.open, g)
	return c
}

// join takes a message of a goroutine that is about to be added to a batch of a size. If the batch has no room, another one follows. It
// returns the members of an older batch at the same address, whose result was lost.
func (b *batches) join(g, batch, size uint64) (lost []member) {
	if size == 0 {
		lost = b.take(batch)
		for _, m := range lost {
			m.call.left--
		}
	}
	c, list := b.open[g], b.members[batch]
	if c == nil || list == nil && len(b.members) >= maxKept || len(list) > 0 && list[len(list)-1].call == c {
		return lost
	}
	c.left++
	b.members[batch] = append(list, member{c, size})
	return lost
}

// take returns the members of a batch that has a result, and forgets it.
func (b *batches) take(batch uint64) []member {
	list := b.members[batch]
	delete(b.members, batch)
	return list
}
