package kafkago

import (
	"testing"

	"github.com/loupe-go/loupe/spans"
)

// TestBatches adds messages of two calls to batches, whose results may be lost.
func TestBatches(t *testing.T) {
	b := newBatches()
	b.begin(&spans.Span{G: 1}, false, true)
	b.begin(&spans.Span{G: 2}, true, true)
	const full, next = 0x100, 0x200
	b.join(1, full, 0)
	b.join(1, full, 1)
	b.join(2, full, 2) // it has no room for this one
	b.join(2, next, 0)
	first, second := b.end(1), b.end(2)
	if first == nil || first.left != 1 || second == nil || second.left != 2 || second.id == first.id || b.end(2) != nil {
		t.Fatalf("%+v and %+v", first, second)
	}
	if list := b.take(full); len(list) != 2 || list[0] != (member{first, 0}) || list[1] != (member{second, 2}) || b.take(full) != nil {
		t.Errorf("the batch has %+v", list)
	}
	if b.join(3, full, 0) != nil || b.take(full) != nil {
		t.Error("a goroutine without a call has joined a batch")
	}

	b.begin(&spans.Span{G: 1}, true, true)
	lost := b.join(1, next, 0) // another batch at the same address
	if len(lost) != 1 || lost[0].call != second || second.left != 1 {
		t.Errorf("lost: %+v", lost)
	}
	if list := b.take(next); len(list) != 1 || list[0].call != b.end(1) {
		t.Errorf("the new batch has %+v", list)
	}
}
