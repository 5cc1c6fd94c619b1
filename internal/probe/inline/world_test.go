package inline

import (
	"bytes"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/probe/inline/trampoline"
)

// world is a program as the probes see it, made up in this process: the probes' code, the memory that it shares with a
// reader, which is mapped a second time as in another process, and threads with made-up structs of the runtime.
type world struct {
	t       testing.TB
	config  csrc.Config
	region  *Region
	program *Program
	clock   *Clock
	reader  *Reader

	code, shared uint64 // where the program and its view of the region are
	bodies       uint64 // where the next body is to be
	private      []byte // the program's own memory
}

// maxBody is more bytes than any body has.
const maxBody = 512

// Offsets of the made-up runtime.
const (
	atStack, atGoM, atSchedSP, atSchedPC, atSchedLR, atSchedBP, atGoid, atGopc, atParent, atStartpc, atCoroarg, atCoroexit = 0, 48, 56, 64, 88, 96, 152, 160, 168, 176, 184, 192
	atProcid, atCurg, atP                                                                                                  = 64, 184, 208
	atPID, atPM                                                                                                            = 4, 56
	atCoroGp, atDataqsiz                                                                                                   = 8, 16
)

// States of the made-up runtime.
const stRunnable, stRunning, stSyscall, stWaiting, stDead = 1, 2, 3, 4, 6

func madeUpConfig() csrc.Config {
	c := csrc.Config{
		G_secret:   csrc.NoField,
		StackDepth: 32, Kinds: event.KindsAll.Words(), RegAbi: 1, SelectCases: 3, SelectRecvs: 4, Procs: 1,
		G_goid: atGoid, G_m: atGoM, G_stack: atStack, G_schedBp: atSchedBP,
		G_schedPc: atSchedPC, G_schedSp: atSchedSP, G_schedLr: atSchedLR, G_startpc: atStartpc, G_gopc: atGopc,
		G_parent: atParent, G_coroarg: atCoroarg, G_coroexit: atCoroexit, M_curg: atCurg, M_p: atP, M_procid: atProcid,
		P_m: atPM, P_id: atPID, CoroGp: atCoroGp, HchanDataqsiz: atDataqsiz,
		StRunnable: stRunnable, StSyscall: stSyscall, StWaiting: stWaiting, StDead: stDead, StDeadExtra: ^uint32(0),
		ReasonCoroutine: 33, ReasonPreempted: 22, TraceReasonPreempted: 11,
	}
	return c
}

// madeUpSet returns a set with places in the made-up runtime.
func madeUpSet(name string, code *csrc.Code, first int) probe.PlannedSet {
	s := probe.PlannedSet{Set: &probe.Set{Name: name, Code: code}, First: first, Settings: make([]uint64, len(code.Settings))}
	for range code.Probes {
		s.Sites = append(s.Sites, csrc.Site{G_reg: gRegister, ObjectReg: csrc.NoRegister, ValueReg: csrc.NoRegister})
	}
	return s
}

// madeUpSets returns the runtime's set.
func madeUpSets() []probe.PlannedSet {
	return []probe.PlannedSet{madeUpSet("runtime", &csrc.Runtime, 0)}
}

// newWorld makes a world; change may adjust its settings.
func newWorld(t testing.TB, change func(*Options)) *world {
	t.Helper()
	clock, err := NewClock()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Arch: runtime.GOARCH, Config: madeUpConfig(), Sets: madeUpSets(), Geometry: Geometry{Lanes: 4, Ring: 1 << 20, Listed: 1 << 12}, Clock: clock}
	if change != nil {
		change(&o)
	}
	w := &world{t: t, config: o.Config, clock: o.Clock}
	if w.program, err = NewProgram(o); err != nil {
		t.Fatal(err)
	}
	w.mapShared(o.Geometry)
	if o.Clock.coarse {
		o.Clock.count(&w.region.shared.Ticks)
	}
	if err := w.region.Place(w.shared); err != nil {
		t.Fatal(err)
	}
	w.mapProgram()
	w.reader = NewReader(w.region, o.Clock)
	w.region.Enable(true)
	return w
}

// mapShared makes the region: here, both sides have it at the same address.
func (w *world) mapShared(g Geometry) {
	w.t.Helper()
	size := g.Size() + Alignment
	room := w.mmap(nil, -1, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	at := (uintptr(room) + Alignment - 1) &^ (Alignment - 1)
	w.shared = uint64(at)
	var err error
	if w.region, err = NewRegion(unsafe.Slice((*byte)(unsafe.Add(room, at-uintptr(room))), g.Size()), g); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) mmap(addr unsafe.Pointer, fd, size, prot, flags int) unsafe.Pointer {
	w.t.Helper()
	p, err := unix.MmapPtr(fd, 0, addr, uintptr(size), prot, flags)
	if err != nil {
		w.t.Fatal(err)
	}
	if addr == nil {
		w.t.Cleanup(func() { unix.MunmapPtr(p, uintptr(size)) })
	}
	return p
}

const roomForBodies = 1 << 16

// mapProgram puts the program into memory, the bodies before it.
func (w *world) mapProgram() {
	size := roomForBodies + w.program.Size()
	p := w.mmap(nil, -1, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	mem := unsafe.Slice((*byte)(p), size)
	w.bodies, w.code = uint64(uintptr(p)), uint64(uintptr(p))+roomForBodies
	copy(mem[roomForBodies:], w.program.Code())
	w.private = mem[roomForBodies+w.program.PrivateAt():]
	copy(w.private, w.program.Private(w.code, w.shared))
	if err := unix.Mprotect(mem[:roomForBodies+w.program.PrivateAt()], unix.PROT_READ|unix.PROT_EXEC); err != nil {
		w.t.Fatal(err)
	}
}

// body puts the code for one place into memory and returns its address.
func (w *world) body(place Place) uintptr {
	w.t.Helper()
	place.Addr = w.bodies
	code, err := w.program.Body(w.code, place)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(code) > maxBody {
		w.t.Fatalf("a body of %d bytes", len(code))
	}
	code = append(code, trampoline.Tail...)
	page := uint64(unix.Getpagesize())
	from := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), uintptr(w.bodies&^(page-1)))), page)
	if int(w.bodies%page)+len(code) > int(page) {
		w.t.Fatal("no room for another body")
	}
	if err := unix.Mprotect(from, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		w.t.Fatal(err)
	}
	copy(from[w.bodies%page:], code)
	if err := unix.Mprotect(from, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		w.t.Fatal(err)
	}
	at := uintptr(w.bodies)
	w.bodies = (w.bodies + uint64(len(code)) + 63) &^ 63
	if next := w.bodies&^(page-1) + page; next-w.bodies < maxBody+64 {
		w.bodies = next
	}
	return at
}

// probe puts the body for a probe into memory, with the g in its usual register.
func (w *world) probe(id csrc.Probe) uintptr { return w.body(Place{Probe: id, G: gRegister}) }

// A thread of the made-up program: an M with a P, its own g, and a goroutine that it runs.
type thread struct {
	w           *world
	g, g0, m, p uint64
	lo, hi      uint64 // the goroutine's stack
	r           trampoline.Registers
}

const stackSizeMade = 1 << 16

// thread makes a thread. There is memory that cannot be read on both sides of each of its structs and of the stack.
func (w *world) thread(goid, tid uint64, proc uint32) *thread {
	th := &thread{w: w}
	th.g, th.g0, th.m, th.p = w.object(512), w.object(512), w.object(512), w.object(512)
	th.lo, th.hi = w.stack()
	put(th.g+atStack, th.lo)
	put(th.g+atStack+8, th.hi)
	put(th.g+atGoM, th.m)
	put(th.g+atGoid, goid)
	put(th.g0+atGoM, th.m)
	put(th.m+atCurg, th.g)
	put(th.m+atP, th.p)
	put(th.m+atProcid, tid)
	put(th.p+atPID-4, uint64(proc)<<32)
	put(th.p+atPM, th.m)
	for i := range th.r.In {
		th.r.In[i] = 0xabcd000000000000 | uint64(i)<<32 | uint64(i)
	}
	th.setG(th.g)
	th.r.In[trampoline.SP] = th.hi - 4096
	th.frames()
	return th
}

// object returns memory that ends where memory begins that cannot be read.
func (w *world) object(size int) uint64 {
	page := unix.Getpagesize()
	p := w.mmap(nil, -1, 3*page, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err := unix.Mprotect(unsafe.Slice((*byte)(unsafe.Add(p, page)), page), unix.PROT_READ|unix.PROT_WRITE); err != nil {
		w.t.Fatal(err)
	}
	return uint64(uintptr(p)) + uint64(2*page-size)
}

// stack returns the bounds of a stack. What is above and below cannot be read.
func (w *world) stack() (lo, hi uint64) {
	page := unix.Getpagesize()
	p := w.mmap(nil, -1, stackSizeMade+2*page, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err := unix.Mprotect(unsafe.Slice((*byte)(unsafe.Add(p, page)), stackSizeMade), unix.PROT_READ|unix.PROT_WRITE); err != nil {
		w.t.Fatal(err)
	}
	lo = uint64(uintptr(p)) + uint64(page)
	return lo, lo + stackSizeMade
}

func word(addr uint64) *uint64  { return (*uint64)(unsafe.Add(unsafe.Pointer(nil), uintptr(addr))) }
func put(addr uint64, v uint64) { *word(addr) = v }

func (th *thread) setG(g uint64) { th.r.In[gRegister] = g }

// frames writes a chain of frames with these return addresses, the innermost first, and a frame pointer to it. What is left
// of the stack above are zeros, and the way back of the trampoline.
func (th *thread) frames(pcs ...uint64) uint64 {
	at := th.r.In[trampoline.SP] + trampoline.Room
	first := at
	for _, pc := range pcs {
		put(at, at+32)
		put(at+8, pc)
		at += 32
	}
	put(at, 0)
	put(at+8, 0)
	th.r.In[fpRegister] = first
	return first
}

// args sets the registers of arguments.
func (th *thread) args(values ...uint64) *thread {
	for i, v := range values {
		th.r.In[argRegisters[i]] = v
	}
	return th
}

func (th *thread) hit(body uintptr) { trampoline.Call(body, &th.r) }

// got is a record that was read.
type got struct {
	csrc.Record
	raw []byte
}

// drain returns all records that are there, the youngest too, without marks at the ends of gaps.
func (w *world) drain() []got {
	var all []got
	w.region.Enable(false)
	defer w.region.Enable(true)
	w.reader.Drain(func(raw []byte) bool {
		if r := *(*csrc.Record)(unsafe.Pointer(&raw[0])); r.Kind != uint8(event.Lost) {
			all = append(all, got{r, append([]byte(nil), raw...)})
		}
		return true
	})
	return all
}

// events returns all records but those of stacks, which it returns by their identity.
func (w *world) events() (events []got, stacks map[uint64][]uint64) {
	stacks = map[uint64][]uint64{}
	for _, r := range w.drain() {
		if r.Kind != csrc.KindStack {
			events = append(events, r)
			continue
		}
		if len(r.raw) != int(recordSize)+8*int(r.Value) {
			w.t.Errorf("a stack of %d in %d bytes", r.Value, len(r.raw))
		}
		pcs := []uint64{}
		for i := range r.Value {
			pcs = append(pcs, *(*uint64)(unsafe.Pointer(&r.raw[recordSize+8*i])))
		}
		stacks[r.Stack] = pcs
	}
	return events, stacks
}

func createOf(e got) csrc.Create { return *(*csrc.Create)(unsafe.Pointer(&e.raw[0])) }

// bodyEnd returns where the body at an address ends.
func (w *world) bodyEnd(at uintptr) uintptr {
	code := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), at)), maxBody)
	return at + uintptr(bytes.Index(code, trampoline.Tail))
}

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
