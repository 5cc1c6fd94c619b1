package inline

import (
	"sync/atomic"
	"unsafe"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// readRing is the reading end of a ring of the region. What is in it is not trusted.
type readRing struct {
	mem  []byte
	head *uint64 // written so far, as the target says
	back *uint64 // where to say what was read
	tail uint64  // read so far
	end  uint64  // written, when it was last looked at
	size uint64  // of the record at tail
}

// ring returns the reading end of a ring at a place in the region.
func (r *Region) ring(from, size int, head, back *uint64) readRing {
	return readRing{mem: r.mem[from : from+size : from+size], head: head, back: back}
}

// look finds the end of what was written.
func (q *readRing) look() { q.end = atomic.LoadUint64(q.head) }

// next finds the next record. Records begin anew where the ring does, so there may be a rest at its end. What cannot be a
// record is the last that is looked at: tail stays before end then.
func (q *readRing) next() bool {
	for q.tail != q.end {
		left, at := q.end-q.tail, q.tail&uint64(len(q.mem)-1)
		rest := uint64(len(q.mem)) - at
		if left > uint64(len(q.mem)) {
			return false
		}
		if rest < recordSize {
			if rest > left {
				return false
			}
			q.tail += rest
			continue
		}
		if left < recordSize {
			return false
		}
		rec := (*csrc.Record)(unsafe.Pointer(&q.mem[at]))
		size := recordSize
		switch rec.Kind {
		case 0:
			if rest > left {
				return false
			}
			q.tail += rest
			continue
		case csrc.KindStack:
			size += min(rec.Value, uint64(csrc.MaxStack)+1) * 8
		case uint8(event.GoCreate):
			size = createSize
		}
		if size > left || size > rest || size > stackSize {
			return false
		}
		q.size = size
		return true
	}
	return false
}

// record returns the record that next has found.
func (q *readRing) record() *csrc.Record {
	return (*csrc.Record)(unsafe.Pointer(&q.mem[q.tail&uint64(len(q.mem)-1)]))
}

// take returns the bytes of that record and goes on to the next. They are valid until the room is given back.
func (q *readRing) take() []byte {
	at := q.tail & uint64(len(q.mem)-1)
	q.tail += q.size
	return q.mem[at : at+q.size : at+q.size]
}

// free gives back the room of what was read.
func (q *readRing) free() { atomic.StoreUint64(q.back, q.tail) }
