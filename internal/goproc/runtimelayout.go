package goproc

import (
	"fmt"

	"github.com/loupe-go/loupe/internal/gobin/layout"
)

// runtimeLayout holds the addresses of the runtime's variables in one process, and the offsets in its structs.
type runtimeLayout struct {
	allgs, allglen, allgptr uint64 // addresses; allglen and allgptr are 0 where unknown
	allm                    uint64
	allp                    uint64 // 0 where unknown
	procM                   int    // offset of runtime.p.m; none where unknown
	work                    uint64 // address of runtime.work's tstart; 0 where unknown

	g gOffsets
	m mOffsets

	status      statusValues
	waitReasons []string
}

// none marks a field that the release does not have.
const none = -1

// gOffsets are byte offsets in runtime.g (runtime/runtime2.go).
type gOffsets struct {
	size                                int
	stackLo, stackHi, schedPC, schedSP  int
	schedLR                             int // used on arm64
	syscallPC, syscallSP                int
	m, status, goid, waitSince          int
	waitReason, lockedM, gopc, startPC  int
	parent, labels, trackingSeq, secret int // none in releases that lack them
}

// mOffsets are byte offsets in runtime.m.
type mOffsets struct {
	size                      int
	g0, curg, procid, alllink int
	vdsoPC, vdsoSP            int    // registers of a goroutine at its call of a vDSO function
	vdsoBelow                 uint64 // distance from vdsoSP up to the caller's stack pointer
}

// statusValues are the runtime's values of goroutine states.
type statusValues struct {
	idle, runnable, running, syscall, waiting, dead, copystack, preempted uint32
	leaked, deadExtra                                                     uint32 // ^0 in releases that lack them
	scan                                                                  uint32 // flag added to the others
}

func newRuntimeLayout(l *layout.Layout, main *module) (runtimeLayout, error) {
	bin, globals := main.bin, main.bin.Globals()
	at := func(addr uint64) uint64 {
		if addr == 0 {
			return 0
		}
		return addr + main.bias
	}
	rt := runtimeLayout{
		allgs: at(globals.Allgs), allglen: at(globals.Allglen), allgptr: at(globals.Allgptr), allm: at(globals.Allm), allp: at(globals.Allp),
		waitReasons: bin.WaitReasons(),
	}
	if rt.allgs == 0 && (rt.allglen == 0 || rt.allgptr == 0) {
		return rt, fmt.Errorf("the address of runtime.allgs could not be found in %s", bin.Path())
	}
	if rt.allm == 0 {
		return rt, fmt.Errorf("the address of runtime.allm could not be found in %s", bin.Path())
	}
	if f, ok := l.Field("runtime.workType.tstart"); ok && globals.Work != 0 {
		rt.work = at(globals.Work) + uint64(f.Offset)
	}
	var err error
	if rt.g, err = newGOffsets(l); err != nil {
		return rt, err
	}
	if rt.m, err = newMOffsets(l); err != nil {
		return rt, err
	}
	rt.procM = (&fieldReader{layout: l}).first("runtime.p.m")
	rt.m.vdsoBelow = vdsoBelow(bin.Arch(), bin.Version().Minor)
	rt.status = newStatusValues(l)
	return rt, nil
}

// fieldReader collects offsets and records the first missing one.
type fieldReader struct {
	layout *layout.Layout
	err    error
}

func (r *fieldReader) need(path string) int {
	off, err := r.layout.Offset(path)
	if err != nil && r.err == nil {
		r.err = err
	}
	return int(off)
}

// first returns the offset of the first path that the release has, or none if it has none of them.
func (r *fieldReader) first(paths ...string) int {
	for _, path := range paths {
		if f, ok := r.layout.Field(path); ok {
			return int(f.Offset)
		}
	}
	return none
}

func (r *fieldReader) size(name string) int {
	n, ok := r.layout.Size(name)
	if (!ok || n == 0 || n > 1<<16) && r.err == nil {
		r.err = fmt.Errorf("no usable size of %s for %s", name, r.layout.GoVersion)
	}
	return int(n)
}

func newGOffsets(l *layout.Layout) (gOffsets, error) {
	r := fieldReader{layout: l}
	g := gOffsets{
		size:    r.size("runtime.g"),
		stackLo: r.need("runtime.g.stack.lo"), stackHi: r.need("runtime.g.stack.hi"),
		schedPC: r.need("runtime.g.sched.pc"), schedSP: r.need("runtime.g.sched.sp"),
		schedLR:   r.first("runtime.g.sched.lr"),
		syscallPC: r.need("runtime.g.syscallpc"), syscallSP: r.need("runtime.g.syscallsp"),
		m: r.need("runtime.g.m"), status: r.need("runtime.g.atomicstatus"), goid: r.need("runtime.g.goid"),
		waitSince: r.need("runtime.g.waitsince"), waitReason: r.need("runtime.g.waitreason"),
		lockedM: r.need("runtime.g.lockedm"), gopc: r.need("runtime.g.gopc"), startPC: r.need("runtime.g.startpc"),
		parent: r.first("runtime.g.parentGoid"), labels: r.first("runtime.g.labels"),
		trackingSeq: r.first("runtime.g.trackingSeq"), secret: r.first("runtime.g.secret"),
	}
	if r.err != nil {
		return g, r.err
	}
	return g, checkWithin(g.size, g.stackLo, g.stackHi, g.schedPC, g.schedSP, g.schedLR, g.syscallPC, g.syscallSP, g.m,
		g.status, g.goid, g.waitSince, g.waitReason, g.lockedM, g.gopc, g.startPC, g.parent, g.labels, g.trackingSeq, g.secret)
}

func newMOffsets(l *layout.Layout) (mOffsets, error) {
	r := fieldReader{layout: l}
	m := mOffsets{
		size: r.size("runtime.m"),
		g0:   r.need("runtime.m.g0"), curg: r.need("runtime.m.curg"), procid: r.need("runtime.m.procid"),
		alllink: r.need("runtime.m.alllink"),
		vdsoPC:  r.first("runtime.m.vdsoPC"), vdsoSP: r.first("runtime.m.vdsoSP"),
	}
	if r.err != nil {
		return m, r.err
	}
	return m, checkWithin(m.size, m.g0, m.curg, m.procid, m.alllink, m.vdsoPC, m.vdsoSP)
}

// vdsoBelow returns the distance from m.vdsoSP up to the caller's stack pointer. Until Go 1.13 on amd64, vdsoSP was the
// location of the return address (runtime/sys_linux_amd64.s, walltime and nanotime).
func vdsoBelow(arch string, minor int) uint64 {
	const lastBelow = 13
	if arch == "amd64" && minor <= lastBelow {
		return 8
	}
	return 0
}

// checkWithin returns an error unless every offset leaves room for a word within a struct of the given size. The size
// is rounded up to a word: single bytes at its end are read separately.
func checkWithin(size int, offsets ...int) error {
	for _, off := range offsets {
		if off != none && (off < 0 || off >= size) {
			return fmt.Errorf("offset %d is outside of a struct of %d bytes", off, size)
		}
	}
	return nil
}

func newStatusValues(l *layout.Layout) statusValues {
	value := func(name string, otherwise uint32) uint32 {
		if v, ok := l.Const(name); ok {
			return uint32(v)
		}
		return otherwise
	}
	// The values have not changed since Go 1.5 (runtime/runtime2.go); later additions have named constants.
	return statusValues{
		idle: value("runtime._Gidle", 0), runnable: value("runtime._Grunnable", 1), running: value("runtime._Grunning", 2),
		syscall: value("runtime._Gsyscall", 3), waiting: value("runtime._Gwaiting", 4), dead: value("runtime._Gdead", 6),
		copystack: value("runtime._Gcopystack", 8), preempted: value("runtime._Gpreempted", 9),
		leaked: value("runtime._Gleaked", ^uint32(0)), deadExtra: value("runtime._Gdeadextra", ^uint32(0)),
		scan: value("runtime._Gscan", 0x1000),
	}
}
