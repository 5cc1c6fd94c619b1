package inline

import (
	"sync/atomic"
	"unsafe"

	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// readRing is the read end of a ring of the region. Its contents are not trusted.
type readRing struct {
	mem  []byte
	head *uint64 // end of the written data, set by the target
	back *uint64 // end of the read data, for the target
	tail uint64  // end of the read data
	end  uint64  // value of head at the last look
	size uint64  // of the record at tail
}

// ring returns the read end of the ring at an offset in the region.
func (r *Region) ring(from, size int, head, back *uint64) readRing {
	return readRing{mem: r.mem[from : from+size : from+size], head: head, back: back}
}

// look reads the end of the written data.
func (q *readRing) look() { q.end = atomic.LoadUint64(q.head) }

// next finds the next record. Records do not wrap around, so bytes at the end of the ring may be unused. An invalid
// record ends the search: tail then stays before end.
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
		if rec.Kind == 0 {
			if rest > left {
				return false
			}
			q.tail += rest
			continue
		}
		size := uint64(rec.Words) * 8
		if size < recordSize || size > left || size > rest || size > uint64(csrc.MaxRecord) {
			return false
		}
		q.size = size
		return true
	}
	return false
}

// record returns the record that next found.
func (q *readRing) record() *csrc.Record {
	return (*csrc.Record)(unsafe.Pointer(&q.mem[q.tail&uint64(len(q.mem)-1)]))
}

// take returns the bytes of that record and advances to the next. They are valid until free is called.
func (q *readRing) take() []byte {
	at := q.tail & uint64(len(q.mem)-1)
	q.tail += q.size
	return q.mem[at : at+q.size : at+q.size]
}

// free frees the space of the data that was read.
func (q *readRing) free() { atomic.StoreUint64(q.back, q.tail) }
