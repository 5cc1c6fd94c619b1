package goproc

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// settler reads the records of buckets in a state that the runtime itself could report. The runtime updates records under a
// lock that a reader from outside cannot take. So settler reads them twice. If both reads are equal, the lock was free
// between them, and the cycle was the same before and after, then the records had these values at that moment: the counts
// in them only increase, and the runtime was not in the middle of an update.
//
// If the records change too often for that, settler reads them in smaller parts. Each part is of one moment.
type settler struct {
	mem    memory
	lock   uint64 // address of the word of the lock
	cycle  uint64 // address of the word of the cycle; 0 if there are no cycles
	record int    // size of a record

	// same reports whether the parts of a record that are used are equal in two reads. By default it compares whole records.
	same func(a, b []byte, cycle uint64) bool

	rereads uint64 // address of a record that is also read with each part; 0 for none
	again   []byte // this record, at the moment of the part that is used, or nil

	deadline  time.Time
	free      bool // the lock was seen unlocked
	looks     int  // reads of any part
	moments   int  // parts that were read, each of one moment
	unsettled int  // records that changed too fast
}

const (
	// settleTime bounds the time in which records are read.
	settleTime = 2 * time.Second
	// settleReads is how often the records of a part are read before the part is divided.
	settleReads = 24
	// lockWait is the pause after the lock was held.
	lockWait = 20 * time.Microsecond
	// maxGap is the distance of two records up to which the memory between them is read, too. It takes less time than a
	// separate part of the request.
	maxGap = 512
)

func (p *Process) newSettler(lock, cycle uint64, record int) *settler {
	return &settler{mem: p.mem, lock: lock, cycle: cycle, record: record, deadline: time.Now().Add(settleTime),
		same: func(a, b []byte, _ uint64) bool { return string(a) == string(b) }}
}

// each calls use with each bucket and its record, in no particular order. cycle is the word of the cycle at the moment
// that the record is of.
func (s *settler) each(buckets []bucket, use func(b *bucket, record []byte, cycle uint64) error) error {
	buckets = slices.Clone(buckets)
	slices.SortFunc(buckets, func(a, b bucket) int {
		if a.record < b.record {
			return -1
		}
		return 1
	})
	return s.part(buckets, use)
}

// part is each for buckets in the order of their addresses.
func (s *settler) part(buckets []bucket, use func(b *bucket, record []byte, cycle uint64) error) error {
	if len(buckets) == 0 {
		return nil
	}
	r := s.newRecords(buckets)
	settled, err := s.settle(r)
	switch {
	case err != nil:
		return err
	case settled:
		s.moments++
		s.again = nil
		if len(r.at) > len(buckets) {
			s.again = r.record(r.now, len(buckets))
		}
		for i := range buckets {
			if err := use(&buckets[i], r.record(r.now, i), r.now.cycle); err != nil {
				return err
			}
		}
		return nil
	case len(buckets) == 1:
		s.unsettled++
		return nil
	}
	half := len(buckets) / 2
	if err := s.part(buckets[:half], use); err != nil {
		return err
	}
	return s.part(buckets[half:], use)
}

// records are the records of some buckets, read twice.
type records struct {
	size        int
	ranges      []addrRange
	at          []recordAt // by bucket; then the record that is read again
	before, now *pass
}

// addrRange is a range of memory.
type addrRange struct {
	addr uint64
	size int
}

// recordAt is the position of a record: the index of a range and the offset in it.
type recordAt struct{ in, off int }

// pass is one read of all records. The word of the cycle is read before and after them, the lock before them.
type pass struct {
	cycle, after uint64
	lock         uint64
	bufs         [][]byte // by range
}

// newRecords finds the ranges of memory that contain the records of buckets, and the one that is read again.
func (s *settler) newRecords(buckets []bucket) *records {
	r := &records{size: s.record}
	for i := range buckets {
		addr := buckets[i].record
		if n := len(r.ranges); n > 0 && addr-r.ranges[n-1].addr-uint64(r.ranges[n-1].size) <= maxGap {
			last := &r.ranges[n-1]
			last.size = int(addr-last.addr) + s.record
			r.at = append(r.at, recordAt{n - 1, last.size - s.record})
			continue
		}
		r.ranges = append(r.ranges, addrRange{addr, s.record})
		r.at = append(r.at, recordAt{len(r.ranges) - 1, 0})
	}
	if s.rereads != 0 {
		r.ranges = append(r.ranges, addrRange{s.rereads, s.record})
		r.at = append(r.at, recordAt{len(r.ranges) - 1, 0})
	}
	r.before, r.now = r.newPass(), r.newPass()
	return r
}

func (r *records) newPass() *pass {
	p := &pass{bufs: make([][]byte, len(r.ranges))}
	for i, m := range r.ranges {
		p.bufs[i] = make([]byte, m.size)
	}
	return p
}

// record returns the record of a bucket in a pass.
func (r *records) record(p *pass, bucket int) []byte {
	at := r.at[bucket]
	return p.bufs[at.in][at.off : at.off+r.size]
}

// settle reads the records until two reads show a state that the runtime could report. It is in r.now then.
func (s *settler) settle(r *records) (settled bool, err error) {
	again := false
	for reads := 0; reads < settleReads; again = true {
		r.before, r.now = r.now, r.before
		if err := s.read(r, r.now); err != nil {
			return false, err
		}
		if again && s.agree(r) {
			return true, nil
		}
		s.looks++
		late := time.Now().After(s.deadline) && s.looks > settleReads // on a machine that stood still, the runtime has not come on
		if late && !s.free {
			return false, fmt.Errorf("process %d: it has been updating its profile for %v; continue it if it is stopped", s.mem.pid, settleTime)
		}
		if late && again {
			return false, nil
		}
		if held(r.now.lock) {
			time.Sleep(lockWait)
		} else {
			reads++
		}
	}
	return false, nil
}

// held reports whether the word of a runtime.mutex is that of a locked one. The low byte of an unlocked one is zero, with
// futexes as well as with the spinning locks of Go 1.24 and later (runtime/lock_futex.go, runtime/lock_spinbit.go).
func held(word uint64) bool { return word&0xff != 0 }

// agree reports whether the records were the same in two reads, and the runtime was not changing them in between.
func (s *settler) agree(r *records) bool {
	a, b := r.before, r.now
	if a.cycle != b.cycle || a.cycle != b.after || held(b.lock) {
		return false
	}
	for i := range r.at {
		if !s.same(r.record(a, i), r.record(b, i), a.cycle) {
			return false
		}
	}
	return true
}

// read reads all records.
func (s *settler) read(r *records, p *pass) error {
	var words [3][8]byte
	spans := make([]span, 0, len(r.ranges)+len(words))
	if s.cycle != 0 {
		spans = append(spans, span{addr: s.cycle, buf: words[0][:4]})
	}
	spans = append(spans, span{addr: s.lock, buf: words[1][:]})
	for i, m := range r.ranges {
		spans = append(spans, span{addr: m.addr, buf: p.bufs[i]})
	}
	if s.cycle != 0 {
		spans = append(spans, span{addr: s.cycle, buf: words[2][:4]})
	}
	if err := s.mem.readSpans(spans); err != nil {
		return err
	}
	for i := range spans {
		if !spans[i].ok {
			return fmt.Errorf("process %d: no readable memory at %#x", s.mem.pid, spans[i].addr)
		}
	}
	s.free = s.free || !held(binary.LittleEndian.Uint64(words[1][:]))
	p.cycle, p.lock, p.after = binary.LittleEndian.Uint64(words[0][:]), binary.LittleEndian.Uint64(words[1][:]), binary.LittleEndian.Uint64(words[2][:])
	return nil
}
