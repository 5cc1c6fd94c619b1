package goproc

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/loupe-go/loupe/internal/ptrace"
)

// signalStacks are found from the list of M's. Most M's are the same as the last time, so these are read in one batch
// before the list is walked, because the caller may have stopped the process.
type signalStacks struct {
	mu   sync.Mutex
	seen []uint64 // M's
}

// SignalStacks returns the stacks on which the threads of the process handle signals, which are those of the runtime's
// gsignal goroutines. The stacks of C code are not included.
func (p *Process) SignalStacks() ([]ptrace.Interval, error) {
	s := &p.signals
	s.mu.Lock()
	defer s.mu.Unlock()
	gsignal, err := p.layout.Offset("runtime.m.gsignal")
	if err != nil {
		return nil, err
	}
	stack, err := p.layout.Offset("runtime.g.stack")
	if err != nil {
		return nil, err
	}
	var gs []uint64
	seen := s.seen
	s.seen = nil
	err = p.followMs(seen, gsignal+8, func(m uint64, b []byte) {
		s.seen = append(s.seen, m)
		if g := binary.LittleEndian.Uint64(b[gsignal:]); g != 0 { // otherwise the thread is being created
			gs = append(gs, g+stack)
		}
	})
	if err != nil {
		return nil, err
	}
	return p.readBounds(gs)
}

// followMs calls f with the address and at least the given number of bytes of each M. M's that probably exist
// are read in advance.
func (p *Process) followMs(likely []uint64, size uint64, f func(m uint64, b []byte)) error {
	size = max(size, uint64(p.rt.m.alllink)+8)
	spans, buf := make([]span, len(likely)), make([]byte, uint64(len(likely)+1)*size)
	read := make(map[uint64]*span, len(likely))
	for i, m := range likely {
		spans[i] = span{addr: m, buf: buf[uint64(i)*size:][:size]}
		read[m] = &spans[i]
	}
	other := buf[uint64(len(likely))*size:]
	err := p.mem.readSpans(spans)
	if err != nil {
		return err
	}
	m, err := p.mem.u64(p.rt.allm)
	done := make(map[uint64]bool, len(likely))
	for m != 0 && err == nil && len(done) < maxThreads {
		if done[m] {
			return fmt.Errorf("process %d: %w: the list of threads is circular", p.pid, ErrLayout)
		}
		done[m] = true
		b := other
		if s := read[m]; s != nil && s.ok {
			b = s.buf
		} else if err = p.mem.read(b, m); err != nil {
			return err
		}
		f(m, b)
		m = binary.LittleEndian.Uint64(b[p.rt.m.alllink:])
	}
	return err
}

// readBounds reads the bounds of stacks.
func (p *Process) readBounds(at []uint64) ([]ptrace.Interval, error) {
	const size = 16
	spans, buf := make([]span, len(at)), make([]byte, len(at)*size)
	for i, addr := range at {
		spans[i] = span{addr: addr, buf: buf[i*size:][:size]}
	}
	if err := p.mem.readSpans(spans); err != nil {
		return nil, err
	}
	stacks := make([]ptrace.Interval, len(at))
	for i, s := range spans {
		if !s.ok {
			return nil, fmt.Errorf("process %d: no readable memory at %#x+%d", p.pid, s.addr, size)
		}
		stacks[i] = ptrace.Interval{Lo: binary.LittleEndian.Uint64(s.buf), Hi: binary.LittleEndian.Uint64(s.buf[8:])}
	}
	return stacks, nil
}
