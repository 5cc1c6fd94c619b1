package goproc

import (
	"encoding/binary"
	"fmt"
)

// Limits on the labels of one goroutine.
const (
	maxLabels     = 1024
	maxLabelBytes = 16 << 10
	maxLabelText  = 256 << 10 // total, of all labels
)

// labelReader reads profiler labels. Goroutines often share a set, so sets are cached by address for one snapshot.
type labelReader struct {
	mem   memory
	asMap bool // a set is a Go map, else a list
	seen  map[uint64]map[string]string
}

// labelHistory lists how releases store a set of labels (runtime/pprof/label.go).
var labelHistory = []struct {
	since int // the first release that stores it this way, 1.x
	asMap bool
}{
	{since: 12, asMap: true},
	{since: 24},
}

// newLabelReader returns a reader for a release.
func newLabelReader(mem memory, minor int) *labelReader {
	r := &labelReader{mem: mem, asMap: labelHistory[0].asMap, seen: map[uint64]map[string]string{}}
	for _, h := range labelHistory {
		if h.since <= minor {
			r.asMap = h.asMap
		}
	}
	return r
}

// read returns the labels of the set at an address; nil if it is empty or not readable.
func (r *labelReader) read(addr uint64) (map[string]string, error) {
	if addr == 0 {
		return nil, nil
	}
	if set, ok := r.seen[addr]; ok {
		return set, nil
	}
	set, err := r.readSet(addr)
	if err != nil {
		return nil, fmt.Errorf("labels at %#x: %w", addr, err)
	}
	if len(set) == 0 {
		set = nil
	}
	r.seen[addr] = set
	return set, nil
}

func (r *labelReader) readSet(addr uint64) (map[string]string, error) {
	if r.asMap {
		header, err := r.mem.u64(addr)
		if err != nil || header == 0 {
			return nil, err
		}
		return r.readMap(header)
	}
	var slice [16]byte
	if err := r.mem.read(slice[:], addr); err != nil {
		return nil, err
	}
	array, n := binary.LittleEndian.Uint64(slice[:]), binary.LittleEndian.Uint64(slice[8:])
	if n == 0 {
		return nil, nil
	}
	if n > maxLabels {
		return nil, fmt.Errorf("%d labels", n)
	}
	raw := make([]byte, 32*n)
	if err := r.mem.read(raw, array); err != nil {
		return nil, err
	}
	set := labelSet{mem: r.mem, labels: make(map[string]string, n)}
	for ; len(raw) > 0; raw = raw[32:] {
		if err := set.add(raw[:16], raw[16:]); err != nil {
			return nil, err
		}
	}
	return set.labels, nil
}

// The layout of a map[string]string before Go 1.24 (runtime/map.go): a header, then 2^B buckets of eight slots each.
const (
	hmapSize      = 48
	hmapB         = 9
	hmapBuckets   = 16
	hmapOld       = 24
	bucketSlots   = 8
	bucketKeys    = bucketSlots
	bucketValues  = bucketKeys + bucketSlots*16
	bucketNext    = bucketValues + bucketSlots*16
	bucketSize    = bucketNext + 8
	minTopHash    = 5 // smaller values mark an empty slot, or one that was moved to the new buckets
	maxBucketBits = 8
)

// readMap reads the entries of a Go map. A set of labels does not change after its creation, but the process may be
// growing it now: entries that were not moved yet are in the old buckets.
func (r *labelReader) readMap(header uint64) (map[string]string, error) {
	var h [hmapSize]byte
	if err := r.mem.read(h[:], header); err != nil {
		return nil, err
	}
	count, bits := binary.LittleEndian.Uint64(h[:]), h[hmapB]
	if count > maxLabels || bits > maxBucketBits {
		return nil, fmt.Errorf("map of %d entries", count)
	}
	set := labelSet{mem: r.mem, labels: make(map[string]string, count)}
	tables := []struct {
		addr uint64
		n    int
	}{
		{binary.LittleEndian.Uint64(h[hmapBuckets:]), 1 << bits},
		{binary.LittleEndian.Uint64(h[hmapOld:]), 1 << max(int(bits)-1, 0)},
	}
	for _, table := range tables {
		for i := 0; table.addr != 0 && i < table.n; i++ {
			if err := set.addBuckets(table.addr + uint64(i*bucketSize)); err != nil {
				return nil, err
			}
		}
	}
	if uint64(len(set.labels)) != count {
		return nil, fmt.Errorf("found %d of %d map entries", len(set.labels), count)
	}
	return set.labels, nil
}

// labelSet collects labels up to the limit of their text.
type labelSet struct {
	mem    memory
	labels map[string]string
	text   int
}

// addBuckets adds the entries of a chain of buckets.
func (s *labelSet) addBuckets(addr uint64) error {
	for chain := 0; addr != 0; chain++ {
		if chain > maxLabels {
			return fmt.Errorf("the chain of buckets is too long")
		}
		var b [bucketSize]byte
		if err := s.mem.read(b[:], addr); err != nil {
			return err
		}
		for i := range bucketSlots {
			if b[i] < minTopHash {
				continue
			}
			if err := s.add(b[bucketKeys+16*i:], b[bucketValues+16*i:]); err != nil {
				return err
			}
		}
		addr = binary.LittleEndian.Uint64(b[bucketNext:])
	}
	return nil
}

// add adds one label, given the string headers of its key and value.
func (s *labelSet) add(key, value []byte) error {
	k, err := s.str(key)
	if err != nil {
		return err
	}
	v, err := s.str(value)
	if err != nil {
		return err
	}
	if s.text += len(k) + len(v); s.text > maxLabelText || len(s.labels) >= maxLabels {
		return fmt.Errorf("more than %d labels or %d bytes", maxLabels, maxLabelText)
	}
	s.labels[k] = v
	return nil
}

func (s *labelSet) str(header []byte) (string, error) {
	n := binary.LittleEndian.Uint64(header[8:])
	if n > maxLabelBytes {
		return "", fmt.Errorf("label of %d bytes", n)
	}
	b := make([]byte, n)
	err := s.mem.read(b, binary.LittleEndian.Uint64(header))
	return string(b), err
}
