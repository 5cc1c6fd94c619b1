package raw

import "encoding/binary"

// A nameTable finds events by name. It is a hash table without collisions: the seed is searched for when it is made.
type nameTable struct {
	seed  uint64
	index [nameSlots]byte // index into format.codes, or 0
}

const (
	nameSlots    = 1 << 10
	nameSlotBits = 10
)

// nameSlot returns the place of a name: begin has its first 8 bytes, or all of it and zeros; end has its last 8 bytes, or
// begin again if it has no more than 8.
func nameSlot(seed, begin, end uint64, size int) uint64 {
	return ((begin ^ end<<1 ^ uint64(size)) * seed) >> (64 - nameSlotBits)
}

// nameKeys returns begin and end for nameSlot.
func nameKeys[T string | []byte](name T) (begin, end uint64) {
	var b [8]byte
	copy(b[:], name)
	begin = binary.LittleEndian.Uint64(b[:])
	if len(name) <= 8 {
		return begin, begin
	}
	copy(b[:], name[len(name)-8:])
	return begin, binary.LittleEndian.Uint64(b[:])
}

// makeNameTable makes the table of a format's names.
func makeNameTable(f *format) nameTable {
	t := nameTable{seed: 0x9e3779b97f4a7c15}
	for !t.fill(f) {
		t.seed = t.seed*6364136223846793005 + 1442695040888963407 | 1
	}
	return t
}

// fill fills the table by its seed. It returns false if two names fall into one slot.
func (t *nameTable) fill(f *format) bool {
	t.index = [nameSlots]byte{}
	for i := range f.codes {
		c := &f.codes[i]
		if c.spec == nil {
			continue
		}
		begin, end := nameKeys(c.spec.Name)
		slot := &t.index[nameSlot(t.seed, begin, end, len(c.spec.Name))]
		if *slot != 0 {
			return false
		}
		*slot = byte(i)
	}
	return true
}

// byName returns the event of a name, or nil.
func (f *format) byName(name []byte) *code {
	if len(name) == 0 {
		return nil
	}
	begin, end := nameKeys(name)
	c := &f.codes[f.names.index[nameSlot(f.names.seed, begin, end, len(name))]]
	if c.spec == nil || c.spec.Name != string(name) {
		return nil
	}
	return c
}
