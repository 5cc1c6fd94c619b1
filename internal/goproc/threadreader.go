package goproc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// maxThreadStack is the size of the part of one stack that a ThreadReader copies.
const maxThreadStack = 32 << 10

// UnknownM is the M of a ThreadState of which only the registers and the copy of the stack are known.
const UnknownM = 1

// A ThreadReader completes states of threads from the memory of the process. It is used by one goroutine.
type ThreadReader struct {
	p     *Process
	inner bool           // the process has a PID namespace of its own
	ms    map[int]uint64 // addresses of M's, by thread ID in the namespace of the process

	walked time.Time     // when the list of M's was read
	cost   time.Duration // how long that took

	gsignal, ncgo, collecting int // offsets in runtime.m

	m, g, bounds []byte
	stack        []byte
}

// walkShare limits the time for reading the list of M's: one in walkShare.
const walkShare = 50

// ThreadReader returns a reader of states of threads.
func (p *Process) ThreadReader() (*ThreadReader, error) {
	fields := fieldReader{layout: p.layout}
	r := &ThreadReader{
		p: p, inner: p.dir.innerPID() != 0, ms: map[int]uint64{},
		gsignal: fields.need("runtime.m.gsignal"), ncgo: fields.first("runtime.m.ncgo"), collecting: fields.first("runtime.m.preemptoff.len"),
		m: make([]byte, p.rt.m.size), g: make([]byte, p.rt.g.size), bounds: make([]byte, 32), stack: make([]byte, maxThreadStack),
	}
	if fields.err == nil {
		fields.err = checkWithin(p.rt.m.size, r.gsignal, r.ncgo, r.collecting)
	}
	if fields.err != nil {
		return nil, fmt.Errorf("process %d: %w: %w", p.pid, ErrLayout, fields.err)
	}
	return r, nil
}

// Read completes a state that has the registers and the copy of the stack of a thread, given the ID of the thread in the PID
// namespace of the caller. It reports whether the state was complete. It is only true for the moment of the copy if the
// thread has not run since, which the caller has to know; a stack that has changed since the copy is noticed.
//
// The copy of the goroutine's stack is valid until the next call.
func (r *ThreadReader) Read(tid int, t *ThreadState) bool {
	m, known := r.mOf(tid)
	if !known {
		return false
	}
	if m == 0 {
		t.M = 0
		return true
	}
	raw := r.p.rt.decodeM(m, r.m)
	s := ThreadState{PC: t.PC, SP: t.SP, LR: t.LR, FP: t.FP, Stack: t.Stack, M: m, CgoCalls: uint64(r.u32(r.ncgo)), Collecting: r.u64(r.collecting) != 0}
	s.VDSOPC, s.VDSOSP = r.u64(r.p.rt.m.vdsoPC), r.u64(r.p.rt.m.vdsoSP)
	if raw.curg != 0 {
		if r.p.mem.read(r.g, raw.curg) != nil {
			return false
		}
		g := r.p.rt.decodeG(raw.curg, r.g)
		if r.p.rt.gone(g) { // of an M that no thread uses: the thread has returned to C code
			t.M = 0
			return true
		}
		s.G, s.GM, s.GoID, s.Start, s.Labels, s.StackLo, s.StackHi = g.addr, g.m, g.goid, g.startPC, g.labels, g.stackLo, g.stackHi
		s.SchedPC, s.SchedSP, s.SchedLR, s.SyscallPC, s.SyscallSP = g.pc, g.sp, g.lr, g.syscallPC, g.syscallSP
	}
	if !r.unchanged(&s, raw.g0, r.u64(r.gsignal)) || !r.copyGoroutine(&s) {
		return false
	}
	*t = s
	return true
}

func (r *ThreadReader) u64(off int) uint64 {
	if off == none || off+8 > len(r.m) {
		return 0
	}
	return binary.LittleEndian.Uint64(r.m[off:])
}

func (r *ThreadReader) u32(off int) uint32 {
	if off == none || off+4 > len(r.m) {
		return 0
	}
	return binary.LittleEndian.Uint32(r.m[off:])
}

// mOf returns the address of the M of a thread, and reads it into r.m. It is 0 if the thread does not belong to the runtime.
func (r *ThreadReader) mOf(tid int) (m uint64, known bool) {
	if r.inner {
		if tid = lastPID(r.p.dir.statusFieldOf(fmt.Sprintf("task/%d/status", tid), "NSpid")); tid == 0 {
			return 0, false
		}
	}
	if m = r.ms[tid]; m != 0 && r.p.mem.read(r.m, m) == nil && r.p.rt.decodeM(m, r.m).tid == tid {
		return m, true
	}
	began := time.Now()
	if began.Sub(r.walked) < walkShare*r.cost {
		return 0, false
	}
	list, err := r.p.readMs()
	r.walked = time.Now()
	r.cost = r.walked.Sub(began)
	if err != nil {
		return 0, false
	}
	clear(r.ms)
	for addr, m := range list {
		if m.tid != 0 {
			r.ms[m.tid] = addr
		}
	}
	if m = r.ms[tid]; m == 0 {
		return 0, true
	}
	return m, r.p.mem.read(r.m, m) == nil && r.p.rt.decodeM(m, r.m).tid == tid
}

// unchanged compares the copy of the stack that the thread uses with the stack.
func (r *ThreadReader) unchanged(s *ThreadState, own ...uint64) bool {
	size := uint64(2 << 10) // of a stack whose end is unknown
	if s.SP-s.StackLo < s.StackHi-s.StackLo {
		size = s.StackHi - s.SP
	} else {
		for _, g := range own {
			if g == 0 || r.p.mem.read(r.bounds[:16], g+uint64(r.p.rt.g.stackLo)) != nil {
				continue
			}
			if lo, hi := binary.LittleEndian.Uint64(r.bounds), binary.LittleEndian.Uint64(r.bounds[8:]); s.SP-lo < hi-lo {
				size = hi - s.SP
			}
		}
	}
	now := r.stack[:min(size, uint64(len(s.Stack.Data)), maxThreadStack)]
	return r.p.mem.read(now, s.Stack.Addr) == nil && bytes.Equal(now, s.Stack.Data[:len(now)])
}

// copyGoroutine copies the stack of the goroutine, unless the thread uses that stack.
func (r *ThreadReader) copyGoroutine(s *ThreadState) bool {
	if s.G == 0 || s.SP-s.StackLo < s.StackHi-s.StackLo {
		return true
	}
	from := uint64(0)
	for _, sp := range []uint64{s.SchedSP, s.SyscallSP, s.VDSOSP} {
		if sp >= s.StackLo && sp < s.StackHi && (from == 0 || sp < from) {
			from = sp
		}
	}
	if from == 0 {
		return true
	}
	s.Goroutine = StackCopy{Addr: from, Data: r.stack[:min(s.StackHi-from, maxThreadStack)]}
	return r.p.mem.read(s.Goroutine.Data, from) == nil
}
