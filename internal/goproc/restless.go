package goproc

import (
	"bytes"
	"encoding/binary"
	"time"
)

// The stack pointer of a running goroutine is in a register of its thread, which cannot be read without stopping the
// thread. Only the outer part of the stack can be read: the frames that have not changed over a few reads. The result
// is marked as best effort and ends where the reads differ.

const (
	restlessReads    = 8
	restlessInterval = 300 * time.Microsecond
	maxRestlessCopy  = 64 << 10 // from the outer end of the stack
	maxSeen          = 1024     // running goroutines that are reported as such at once; the others are read again
)

// observation is the first read of a running goroutine's g and outer stack, and its comparison with later reads.
type observation struct {
	g       rawG
	stack   stackImage
	changed []bool // by word of the stack
	lost    bool   // the goroutine ended, or its stack was moved
}

// observe reads the outer part of the stack of a running goroutine. If the goroutine stops meanwhile, nothing is known about the
// stack that it had.
func (t *taker) observe(g rawG) *observation {
	o := t.firstRead(g)
	if gs, err := t.p.readGs([]uint64{g.addr}); err != nil || gs[0].goid != g.goid || gs[0].status != g.status {
		o.lost = true
	}
	return o
}

// firstRead reads the outer part of the stack of a goroutine.
func (t *taker) firstRead(g rawG) *observation {
	if g.stackLo >= g.stackHi {
		return &observation{g: g, lost: true}
	}
	n := min(g.stackHi-g.stackLo, maxRestlessCopy)
	o := &observation{g: g, stack: stackImage{base: g.stackHi - n, data: make([]byte, n)}, changed: make([]bool, n/8)}
	o.lost = t.p.mem.read(o.stack.data, o.stack.base) != nil
	return o
}

// restless adds the goroutines that ran during every read: those that are running, and those that stop and start
// frequently.
func (t *taker) restless(addrs []uint64) error {
	gs, err := t.p.readGs(addrs)
	if err != nil {
		return err
	}
	watched := t.seen
	for _, g := range gs {
		if !t.p.rt.gone(g) && g.stackLo < g.stackHi {
			watched = append(watched, t.firstRead(g))
		}
	}
	for range restlessReads {
		if len(watched) == 0 || t.snap.Paused { // nothing changes
			break
		}
		time.Sleep(restlessInterval)
		for _, o := range watched {
			t.compare(o)
		}
	}
	for _, o := range watched {
		t.addRestless(o)
	}
	return nil
}

// compare reads a goroutine again and marks the words of its stack that have changed.
func (t *taker) compare(o *observation) {
	if o.lost {
		return
	}
	gs, err := t.p.readGs([]uint64{o.g.addr})
	if err != nil || gs[0].goid != o.g.goid || gs[0].stackHi != o.g.stackHi || gs[0].stackLo != o.g.stackLo {
		o.lost = true
		return
	}
	again := make([]byte, len(o.stack.data))
	if t.p.mem.read(again, o.stack.base) != nil {
		o.lost = true
		return
	}
	if bytes.Equal(again, o.stack.data) {
		return
	}
	for i := range o.changed {
		if binary.LittleEndian.Uint64(again[8*i:]) != binary.LittleEndian.Uint64(o.stack.data[8*i:]) {
			o.changed[i] = true
		}
	}
}

func (t *taker) addRestless(o *observation) {
	var frames []physical
	if !o.lost {
		stable := func(addr uint64) bool { return !o.changed[(addr-o.stack.base)/8] }
		frames = t.p.symbols.unwindOutward(o.g.startPC, o.stack, stable)
	}
	g := t.goroutine(o.g, t.p.symbols.frames(frames))
	g.BestEffort = true
	if o.g.status != t.p.rt.status.running {
		t.snap.Unsettled++
	}
	t.keep(g)
}
