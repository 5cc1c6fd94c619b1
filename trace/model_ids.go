package trace

// modelIDs finds the things of a generation's list by the IDs that the trace gave them. The runtime numbers them from 1
// without gaps, so that a plain table will do.
type modelIDs struct {
	list   []uint64 // the IDs in the order of the list
	dense  []uint32 // by ID, the index in the list and one; 0 for none
	sparse map[uint64]uint32
}

// add gives the next thing of the list an ID.
func (x *modelIDs) add(id uint64) { x.list = append(x.list, id) }

// reset forgets all.
func (x *modelIDs) reset() {
	x.list = x.list[:0]
	x.dense, x.sparse = x.dense[:0], nil
}

// build makes the table. It calls twice with the index of each thing that has the ID of an earlier one, which it cannot
// be found by then.
func (x *modelIDs) build(twice func(i int)) {
	highest := uint64(0)
	for _, id := range x.list {
		highest = max(highest, id)
	}
	if highest > 8*uint64(len(x.list))+1024 {
		x.sparse = make(map[uint64]uint32, len(x.list))
		for i, id := range x.list {
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
	for i, id := range x.list {
		if x.dense[id] != 0 {
			twice(i)
			continue
		}
		x.dense[id] = uint32(i + 1)
	}
}

// find returns the index of the thing with an ID; -1 when there is none.
func (x *modelIDs) find(id uint64) int {
	if id < uint64(len(x.dense)) {
		return int(x.dense[id]) - 1
	}
	return int(x.sparse[id]) - 1
}
