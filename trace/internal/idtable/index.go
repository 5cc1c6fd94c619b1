package idtable

// An Index finds the things of a list by the IDs that the trace gave them. The runtime numbers them from 1 without gaps,
// so that a plain table will do.
type Index struct {
	IDs    []uint64 // the IDs in the order of the list
	dense  []uint32 // by ID, the index in the list and one; 0 for none
	sparse map[uint64]uint32
}

// Add gives the next thing of the list an ID.
func (x *Index) Add(id uint64) { x.IDs = append(x.IDs, id) }

// Reset forgets all.
func (x *Index) Reset() {
	x.IDs = x.IDs[:0]
	x.dense, x.sparse = x.dense[:0], nil
}

// Build makes the table. It calls twice with the index of each thing that has the ID of an earlier one, and that Find
// does not return for this reason.
func (x *Index) Build(twice func(i int)) {
	highest := uint64(0)
	for _, id := range x.IDs {
		highest = max(highest, id)
	}
	if highest > 8*uint64(len(x.IDs))+1024 {
		x.sparse = make(map[uint64]uint32, len(x.IDs))
		for i, id := range x.IDs {
			if _, ok := x.sparse[id]; ok {
				twice(i)
				continue
			}
			x.sparse[id] = uint32(i + 1)
		}
		return
	}
	if n := int(highest) + 1; n <= cap(x.dense) {
		x.dense = x.dense[:n]
		clear(x.dense)
	} else {
		x.dense = make([]uint32, n)
	}
	for i, id := range x.IDs {
		if x.dense[id] != 0 {
			twice(i)
			continue
		}
		x.dense[id] = uint32(i + 1)
	}
}

// Find returns the index of the thing with an ID; -1 when there is none.
func (x *Index) Find(id uint64) int {
	if id < uint64(len(x.dense)) {
		return int(x.dense[id]) - 1
	}
	return int(x.sparse[id]) - 1
}
