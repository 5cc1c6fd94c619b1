package goproc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// The types of buckets (runtime.bucketType).
const (
	memBucket   = 1
	blockBucket = 2
	mutexBucket = 3
)

// Limits on what is accepted as a list of buckets.
const (
	maxBuckets     = 1 << 19
	maxBucketStack = 1024    // runtime.maxProfStackDepth
	maxBucketWords = 1 << 25 // addresses in all stacks
)

// A bucket is one entry of a profile: a stack, for the memory profile with a size. It does not change (runtime.bucket). Its
// record has the counts, which change.
type bucket struct {
	size   uint64
	stack  []uint64 // return addresses, leaf first
	record uint64   // address of the record
}

// buckets reads the list of buckets whose head is stored at an address. recordSize is the size of their records. Buckets
// that the runtime adds meanwhile may be missing.
func (p *Process) buckets(l *profileLayout, head, typ uint64, recordSize int) ([]bucket, error) {
	// On arm64, the first words of a new bucket may be visible after the head of the list (Go 1.18 and earlier). Read again.
	const attempts = 3
	var list []bucket
	var err error
	for range attempts {
		r := bucketReader{layout: l, pages: pageReader{mem: p.mem}, typ: typ}
		var first uint64
		if first, err = p.mem.u64(head); err != nil {
			return nil, err
		}
		list, err = r.list(first)
		if err == nil || !errors.Is(err, errBucket) {
			return list, err
		}
	}
	return nil, p.profileErrorf("%w", err)
}

// errBucket reports memory that is not a list of buckets.
var errBucket = errors.New("not a list of profile buckets")

// bucketReader reads a list of buckets.
type bucketReader struct {
	layout *profileLayout
	pages  pageReader
	typ    uint64
	words  int // addresses in the stacks so far
}

func (r *bucketReader) list(addr uint64) ([]bucket, error) {
	var list []bucket
	seen := map[uint64]bool{}
	header := make([]byte, r.layout.bucketSize)
	for ; addr != 0; addr = binary.LittleEndian.Uint64(header[r.layout.allnext:]) {
		if seen[addr] {
			return nil, fmt.Errorf("%w: the list is circular", errBucket)
		}
		if len(list) >= maxBuckets {
			return nil, fmt.Errorf("%w: more than %d buckets", errBucket, maxBuckets)
		}
		seen[addr] = true
		if err := r.pages.read(header, addr); err != nil {
			return nil, fmt.Errorf("%w: %w", errBucket, err)
		}
		b, err := r.bucket(addr, header)
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, nil
}

// bucket decodes a bucket and reads its stack.
func (r *bucketReader) bucket(addr uint64, header []byte) (bucket, error) {
	word := func(off int) uint64 { return binary.LittleEndian.Uint64(header[off:]) }
	depth := word(r.layout.nstk)
	if word(r.layout.typ) != r.typ || depth > maxBucketStack {
		return bucket{}, fmt.Errorf("%w: type %d and %d addresses at %#x", errBucket, word(r.layout.typ), depth, addr)
	}
	if r.words += int(depth); r.words > maxBucketWords {
		return bucket{}, fmt.Errorf("%w: more than %d addresses", errBucket, maxBucketWords)
	}
	raw := make([]byte, 8*depth)
	if err := r.pages.read(raw, addr+uint64(r.layout.bucketSize)); err != nil {
		return bucket{}, fmt.Errorf("%w: %w", errBucket, err)
	}
	return bucket{size: word(r.layout.size), stack: words(raw), record: addr + uint64(r.layout.bucketSize) + 8*depth}, nil
}

// pageReader reads memory that does not change, in large pieces, because small objects are close together.
type pageReader struct {
	mem   memory
	pages map[uint64][]byte // by page number
}

const (
	readAhead      = 16   // pages that are read at once
	maxCachedPages = 8192 // 32 MiB with the usual size of pages
)

var pageSize = uint64(os.Getpagesize())

// read fills b from addr.
func (r *pageReader) read(b []byte, addr uint64) error {
	for len(b) > 0 {
		page, err := r.page(addr / pageSize)
		if err != nil {
			return err
		}
		n := copy(b, page[addr%pageSize:])
		b, addr = b[n:], addr+uint64(n)
	}
	return nil
}

// page returns the contents of a page.
func (r *pageReader) page(number uint64) ([]byte, error) {
	if page, ok := r.pages[number]; ok {
		return page, nil
	}
	if r.pages == nil || len(r.pages) > maxCachedPages {
		r.pages = map[uint64][]byte{}
	}
	first := number &^ (readAhead - 1)
	spans := make([]span, readAhead)
	for i := range spans {
		spans[i] = span{addr: (first + uint64(i)) * pageSize, buf: make([]byte, pageSize)}
	}
	if err := r.mem.readSpans(spans); err != nil {
		return nil, err
	}
	for i, s := range spans {
		if s.ok {
			r.pages[first+uint64(i)] = s.buf
		}
	}
	if page, ok := r.pages[number]; ok {
		return page, nil
	}
	return nil, fmt.Errorf("process %d: no readable memory at %#x", r.mem.pid, number*pageSize)
}
