package order

import (
	"cmp"
	"slices"
)

// A frontier has the threads of a generation that have events left. It is a binary heap by the time of the next
// event, the earliest first. What has the same time comes in the order that the toolchain's reader has: its heap moves
// the same way.
type frontier []head

// A head is a thread and the time of its next event.
type head struct {
	time   int64
	cursor *Cursor
}

// push adds a thread.
func (f *frontier) push(c *Cursor) {
	*f = append(*f, head{c.Time, c})
	f.up(len(*f) - 1)
}

// up moves an element towards the root, to where it belongs, and returns its index there.
func (f frontier) up(i int) int {
	for i > 0 {
		parent := (i - 1) / 2
		if f[parent].time <= f[i].time {
			break
		}
		f[parent], f[i] = f[i], f[parent]
		i = parent
	}
	return i
}

// down moves an element away from the root, to where it belongs.
func (f frontier) down(i int) {
	moving := f[i]
	for {
		child := 2*i + 1
		if child >= len(f) {
			break
		}
		least := f[child].time
		if other := child + 1; other < len(f) && f[other].time < least {
			child, least = other, f[other].time
		}
		if moving.time <= least {
			break
		}
		f[i] = f[child]
		i = child
	}
	f[i] = moving
}

// updateFirst moves the root, whose time has changed. Most often it is still the earliest.
func (f frontier) updateFirst() {
	if len(f) > 1 && f[1].time < f[0].time || len(f) > 2 && f[2].time < f[0].time {
		f.down(0)
	}
}

// update moves an element whose time has changed.
func (f frontier) update(i int) {
	if f.up(i) == i {
		f.down(i)
	}
}

// remove removes an element: all on its way to the root move down, and the last one becomes the root.
func (f *frontier) remove(i int) {
	h := *f
	for ; i > 0; i = (i - 1) / 2 {
		h[i] = h[(i-1)/2]
	}
	n := len(h) - 1
	h[0] = h[n]
	h[n] = head{}
	if *f = h[:n]; n > 0 {
		f.down(0)
	}
}

// sort puts all into the order of time, which is a heap too.
func (f frontier) sort() {
	slices.SortFunc(f, func(a, b head) int { return cmp.Compare(a.time, b.time) })
}
