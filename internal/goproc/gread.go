package goproc

import (
	"encoding/binary"
	"fmt"
)

// rawG holds the decoded fields of a runtime.g that a snapshot requires.
type rawG struct {
	addr             uint64
	goid             uint64
	status           uint32 // without the scan flag
	stackLo, stackHi uint64
	pc, sp, lr       uint64 // saved when the goroutine stopped running
	syscallPC        uint64
	syscallSP        uint64
	m                uint64
	waitSince        int64
	waitReason       uint8
	locked           bool
	gopc, startPC    uint64
	parent           uint64
	labels           uint64
	secret           bool  // it is in secret mode (package runtime/secret), and labels is 0 then
	trackingSeq      uint8 // number of times it stopped running, modulo 256 (Go 1.17 and later)
}

// decodeG decodes the bytes of a runtime.g.
func (rt *runtimeLayout) decodeG(addr uint64, b []byte) rawG {
	o := &rt.g
	word := func(off int) uint64 {
		if off == none || off+8 > len(b) {
			return 0
		}
		return binary.LittleEndian.Uint64(b[off:])
	}
	octet := func(off int) uint8 {
		if off == none || off >= len(b) {
			return 0
		}
		return b[off]
	}
	status := uint32(word(o.status))
	g := rawG{
		addr: addr, goid: word(o.goid), status: status &^ rt.status.scan,
		stackLo: word(o.stackLo), stackHi: word(o.stackHi),
		pc: word(o.schedPC), sp: word(o.schedSP), lr: word(o.schedLR),
		syscallPC: word(o.syscallPC), syscallSP: word(o.syscallSP), m: word(o.m),
		waitSince: int64(word(o.waitSince)), waitReason: octet(o.waitReason), locked: word(o.lockedM) != 0,
		gopc: word(o.gopc), startPC: word(o.startPC), parent: word(o.parent), labels: word(o.labels),
		trackingSeq: octet(o.trackingSeq), secret: uint32(word(o.secret)) != 0,
	}
	if g.secret {
		g.labels = 0
	}
	return g
}

// same reports whether a goroutine did not run between two reads of its g. The waiting time may
// differ, as may the scan flag, which is not kept: the garbage collector sets both without running the goroutine.
func (a rawG) same(b rawG) bool {
	a.waitSince = b.waitSince
	return a == b
}

// gone reports whether a g is currently unused.
func (rt *runtimeLayout) gone(g rawG) bool {
	s := &rt.status
	return g.goid == 0 || g.status == s.idle || g.status == s.dead || g.status == s.deadExtra
}

// maxGoroutines bounds the list of goroutines; the runtime never shrinks it.
const maxGoroutines = 1 << 27

// readAllgs returns the addresses of all g's that the process has ever allocated.
func (p *Process) readAllgs() ([]uint64, error) {
	array, n, err := p.allgsHeader()
	if err != nil {
		return nil, err
	}
	if n > maxGoroutines {
		return nil, fmt.Errorf("process %d: %w: a list of %d goroutines", p.pid, ErrLayout, n)
	}
	raw := make([]byte, n*8)
	if err := p.mem.read(raw, array); err != nil {
		return nil, err
	}
	gs := make([]uint64, 0, n)
	for ; len(raw) > 0; raw = raw[8:] {
		if addr := binary.LittleEndian.Uint64(raw); addr != 0 {
			gs = append(gs, addr)
		}
	}
	return gs, nil
}

// allgsHeader returns the address and length of the list. Go 1.16 and later publish both for readers that hold no lock:
// the length after the array. Older releases have only the slice, whose words are read until they agree.
func (p *Process) allgsHeader() (array, n uint64, err error) {
	if p.rt.allglen != 0 && p.rt.allgptr != 0 {
		if n, err = p.mem.u64(p.rt.allglen); err != nil {
			return 0, 0, err
		}
		array, err = p.mem.u64(p.rt.allgptr)
		return array, n, err
	}
	var last [24]byte
	for range 100 {
		var b [24]byte
		if err := p.mem.read(b[:], p.rt.allgs); err != nil {
			return 0, 0, err
		}
		array, n = binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])
		if b == last && n <= binary.LittleEndian.Uint64(b[16:]) {
			return array, n, nil
		}
		last = b
	}
	return 0, 0, fmt.Errorf("process %d: the list of goroutines changes too fast to read", p.pid)
}

// readGs reads several g's at once. Those that cannot be read have goid 0.
func (p *Process) readGs(addrs []uint64) ([]rawG, error) {
	gs := make([]rawG, len(addrs))
	err := p.eachG(addrs, func(i int, g rawG) { gs[i] = g })
	return gs, err
}

// eachG reads several g's, and calls f with those that can be read, and with their index.
func (p *Process) eachG(addrs []uint64, f func(i int, g rawG)) error {
	size := p.rt.g.size
	const batch = 4096
	buf := make([]byte, min(batch, len(addrs))*size)
	spans := make([]span, 0, min(batch, len(addrs)))
	for done := 0; done < len(addrs); done += len(spans) {
		spans = spans[:0]
		for i, addr := range addrs[done:min(done+batch, len(addrs))] {
			spans = append(spans, span{addr: addr, buf: buf[i*size : (i+1)*size]})
		}
		if err := p.mem.readSpans(spans); err != nil {
			return err
		}
		for i := range spans {
			if spans[i].ok {
				f(done+i, p.rt.decodeG(spans[i].addr, spans[i].buf))
			}
		}
	}
	return nil
}

// rawM holds the decoded fields of a runtime.m that a snapshot requires.
type rawM struct {
	addr     uint64
	g0, curg uint64
	tid      int       // the kernel thread; 0 until it has started
	vdso     registers // of the goroutine, while its thread is in the vDSO; zero otherwise
}

// maxThreads bounds the walk of the list of M's (the default limit of the runtime is 10,000).
const maxThreads = 1 << 20

// readMs returns the process's M's by address.
func (p *Process) readMs() (map[uint64]rawM, error) {
	o := &p.rt.m
	ms := map[uint64]rawM{}
	addr, err := p.mem.u64(p.rt.allm)
	if err != nil {
		return nil, err
	}
	b := make([]byte, o.size)
	for ; addr != 0 && len(ms) < maxThreads; addr = binary.LittleEndian.Uint64(b[o.alllink:]) {
		if _, again := ms[addr]; again {
			return nil, fmt.Errorf("process %d: %w: the list of threads is circular", p.pid, ErrLayout)
		}
		if err := p.mem.read(b, addr); err != nil {
			return nil, err
		}
		ms[addr] = p.rt.decodeM(addr, b)
	}
	return ms, nil
}

// decodeM decodes the bytes of a runtime.m.
func (rt *runtimeLayout) decodeM(addr uint64, b []byte) rawM {
	o := &rt.m
	word := func(off int) uint64 {
		if off == none || off+8 > len(b) {
			return 0
		}
		return binary.LittleEndian.Uint64(b[off:])
	}
	vdso := registers{pc: word(o.vdsoPC), sp: word(o.vdsoSP)}
	if vdso.sp != 0 {
		vdso.sp += o.vdsoBelow
	}
	return rawM{
		addr: addr, g0: word(o.g0), curg: word(o.curg), tid: int(int32(word(o.procid))),
		vdso: vdso,
	}
}
