// Package ring reads BPF ring buffers in place. The central type is [Ring].
package ring

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A Ring reads a BPF ring buffer in place. The kernel maps the data twice in a row, so that each record is contiguous. Only as much of
// the second copy is mapped as a record can need, because all of it would count as memory of this process.
// Each record has a header of eight bytes: its length with two flags, and a word for the kernel
// (include/uapi/linux/bpf.h, Documentation/bpf/ringbuf.rst).
type Ring struct {
	consumerPage, producerPages []byte
	consumer, producer          *uint64 // positions, which only increase
	data                        []byte  // the buffer, and largest bytes of it once more
	mask                        uint64
	looked                      uint64 // consumer's position at the last call of Since
}

const (
	ringHeader    = 8
	ringBusy      = 1 << 31 // the record is still being written
	ringDiscarded = 1 << 30 // the writer discarded the record

	largest = 64 << 10 // bytes of a record with its header; Loupe's programs reserve much less
)

// freeEvery is after how many bytes read their room is given back while more is read.
const freeEvery = 64 << 10

// New maps the memory of a ring buffer.
func New(m *ebpf.Map) (*Ring, error) {
	page, size := os.Getpagesize(), int(m.MaxEntries())
	consumer, err := unix.Mmap(m.FD(), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping the ring buffer: %w", err)
	}
	producer, err := unix.Mmap(m.FD(), int64(page), page+size+min(size, largest), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		unix.Munmap(consumer)
		return nil, fmt.Errorf("mapping the ring buffer's data: %w", err)
	}
	return &Ring{
		consumerPage: consumer, producerPages: producer, data: producer[page:], mask: uint64(size) - 1,
		consumer: (*uint64)(unsafe.Pointer(&consumer[0])), producer: (*uint64)(unsafe.Pointer(&producer[0])),
	}, nil
}

// Empty reports whether there is nothing to read.
func (r *Ring) Empty() bool { return atomic.LoadUint64(r.consumer) == atomic.LoadUint64(r.producer) }

// Used returns how many bytes are in use, by records that were not read or are being written.
func (r *Ring) Used() uint64 {
	at := atomic.LoadUint64(r.consumer) // first, so that the difference is not negative
	return min(atomic.LoadUint64(r.producer)-at, r.Size())
}

// Size returns how many bytes the buffer has room for.
func (r *Ring) Size() uint64 { return r.mask + 1 }

// Since returns how many bytes were read since its last call.
func (r *Ring) Since() uint64 {
	at := atomic.LoadUint64(r.consumer)
	n := at - r.looked
	r.looked = at
	return n
}

// Drain calls record with each complete record, in order, until it returns false. The bytes are valid only during the call.
// It reports whether it has read all records that were there when it was called.
func (r *Ring) Drain(record func([]byte) bool) (all bool) {
	at := atomic.LoadUint64(r.consumer)
	freed := at
	defer func() { atomic.StoreUint64(r.consumer, at) }()
	for end := atomic.LoadUint64(r.producer); at < end; {
		pos := at & r.mask
		header := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[pos])))
		if header&ringBusy != 0 {
			return false
		}
		length := uint64(header &^ (ringBusy | ringDiscarded))
		raw := r.data[pos+ringHeader : pos+ringHeader+length : pos+ringHeader+length]
		at += (ringHeader + length + 7) &^ 7
		if header&ringDiscarded == 0 && !record(raw) {
			return false
		}
		if at-freed >= freeEvery {
			atomic.StoreUint64(r.consumer, at)
			freed = at
			end = atomic.LoadUint64(r.producer)
		}
	}
	return true
}

// Close unmaps the memory.
func (r *Ring) Close() error {
	err := unix.Munmap(r.consumerPage)
	if err2 := unix.Munmap(r.producerPages); err == nil {
		err = err2
	}
	return err
}
