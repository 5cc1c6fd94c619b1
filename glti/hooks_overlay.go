//go:build loupe_glti

package glti

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

var impl hooks = newOverlay()

// overlay is what the runtime of `loupe go build` provides. Symbols and other profiles are those of a stock program. The patches of the
// runtime are in internal/overlay/patches; go doc of internal/overlay lists the functions that the runtime pushes.
type overlay struct {
	*stock

	cpu         patchedCPU
	contentions patchedContentions
	heap        patchedHeap
	goroutines  patchedGoroutines
	types       funcTypes

	mask    atomic.Uint64 // the events that have callbacks, and those of streams
	enabled uint64        // the events that have callbacks; guarded by changed
	streams openStreams
	// streamMask are the events of streams; guarded by changed.
	streamMask   uint64
	streamSystem bool           // a stream wants the goroutines of the runtime; guarded by changed
	changed      sync.Mutex     // held to change mask
	drains       atomic.Bool    // the goroutine that reads the rings is running
	rounds       atomic.Uint64  // how often it has emptied the rings
	sync         func(rtRecord) // receives the events of class A
	lost         uint64         // lost records that have been reported; of that goroutine
	strings      stringTable
}

// rtRecord is runtime.gltiRecord.
type rtRecord struct {
	event  uint8
	late   bool
	p      int32
	time   int64
	end    int64
	g      uintptr
	goid   uint64
	by     uintptr
	byGoid uint64
	args   [2]uint64
	stack  uint64
}

// The functions that the runtime pushes. Pointers to functions are *func.
func rt_enable(mask uint64)
func rt_deliver(fn unsafe.Pointer)
func rt_annotated(fn unsafe.Pointer)
func rt_panicked(fn unsafe.Pointer)
func rt_quiet()
func rt_stamp() string
func rt_self() (g uintptr, goid uint64)
func rt_drain(into []rtRecord) int
func rt_lost() uint64
func rt_inState(event uint8, into []rtID) int
func rt_proc(id int32) uintptr
func rt_wait(ns int64)
func rt_local(g uintptr, goid uint64) unsafe.Pointer
func rt_setLocal(g uintptr, goid uint64, box unsafe.Pointer) unsafe.Pointer
func rt_inherit(on bool)
func rt_given(g uintptr, goid uint64) unsafe.Pointer
func rt_cpuStart(hz int32) bool
func rt_cpuStop()
func rt_cpuRead() (data []uint64, tags []unsafe.Pointer, eof bool)
func rt_blockRate(rate int)
func rt_mutexRate(rate int)
func rt_contentionRead() []uint64
func rt_countAllocs(on bool)
func rt_allocs(g uintptr, goid uint64) (bytes, objects uint64, ok bool)
func rt_allocsEnded() (bytes, objects uint64)
func rt_profileIDs(ids []G)
func rt_threads(after int64, into []rtThread) (n int, next int64)
func rt_heapRate(client, rate int)
func rt_heapRead(client int, at uintptr, rec unsafe.Pointer) uintptr
func rt_argInfo(pc uintptr) (info unsafe.Pointer, ok bool)
func rt_types() (begin, end uintptr)

// drainEvery is how long a late record waits at most.
const drainEvery = 10 * time.Millisecond

// drainWait waits after n records were read. While there are many, waiting less keeps the buffers in the cache. It waits without a timer: see
// rt_wait.
func drainWait(n int) {
	wait := drainEvery
	if n > 1<<13 {
		wait /= 5
	}
	rt_wait(int64(wait))
}

// overlayEvents are the events that the runtime reports, with the class of their callbacks. No current release has the others.
var overlayEvents = map[Event]Class{
	EvGoCreate:      ClassA,
	EvGoEnd:         ClassA,
	EvGoSched:       ClassA,
	EvGoSleep:       ClassA,
	EvGoBlockSend:   ClassA,
	EvGoBlockRecv:   ClassA,
	EvGoBlockSelect: ClassA,
	EvGoBlockSync:   ClassA,
	EvGoBlockCond:   ClassA,
	EvGoBlockNet:    ClassA,
	EvGoBlock:       ClassC,
	EvGoBlockGC:     ClassC,
	EvGoStop:        ClassC,
	EvGoStart:       ClassC,
	EvGoPreempt:     ClassC,
	EvGoUnblock:     ClassC,
	EvGoSysCall:     ClassC,
	EvGoSysExit:     ClassC,
	EvGCStart:       ClassC,
	EvGCDone:        ClassC,
	EvGCSTWStart:    ClassC,
	EvGCSTWDone:     ClassC,
	EvHeapAlloc:     ClassC,
	EvNextGC:        ClassC,
	EvProcStart:     ClassC,
	EvProcStop:      ClassC,
	EvGCSweepStart:  ClassC,
	EvGCSweepDone:   ClassC,
	EvGoSysBlock:    ClassC,
	EvGoWaiting:     ClassA,
	EvGoInSyscall:   ClassA,
	EvString:        ClassA,

	EvGoStartLocal:   ClassC,
	EvGoStartLabel:   ClassC,
	EvGoUnblockLocal: ClassC,
	EvGoSysExitLocal: ClassC,

	EvGCMarkAssistStart: ClassC,
	EvGCMarkAssistDone:  ClassC,

	EvUserTaskCreate: ClassA,
	EvUserTaskEnd:    ClassA,
	EvUserRegion:     ClassA,
	EvUserLog:        ClassA,
}

// overlayLimits are the limits of events that differ from others of their class. Some are late more often, because a callback could need what
// the goroutine has.
var overlayLimits = map[Event]string{
	EvGoBlockSync: "waits for locks are late, those for a WaitGroup are not",
	EvGoBlockNet:  "waits for writing are late",
	EvGoSysBlock:  "with Go 1.21 to 1.25, some system calls that began before the registration are missing",
	EvString:      "the strings of tasks, regions and logs alone",
}

// overlayMethods are the other methods that the runtime provides.
var overlayMethods = []string{"GetG", "GetGls", "GetGlsPtr", "SetGls", "SetGlsPtr", "InheritGls", "RegisterEvUnhandledPanic", "CountAllocs", "Allocs", "AllocsEnded"}

func newOverlay() *overlay {
	o := &overlay{stock: newStock()}
	o.sync = func(r rtRecord) {
		if len(o.streams.get()) > 0 {
			o.pass([]rtRecord{r}, nil)
		}
		deliver(r.record())
	}
	annotated := func(event uint8, time int64, g uintptr, goid, arg0, arg1 uint64, text0, text1 string) {
		o.annotate(Record{Event: Event(event), Time: time, G: G{g, goid}, Args: [2]uint64{arg0, arg1}, Text: [2]string{text0, text1}})
	}
	rt_annotated(unsafe.Pointer(&annotated))
	return o
}

func (*overlay) builtBy() string { return "loupe go" }

func (o *overlay) capability(c Capability) Capability {
	if slices.Contains(overlayMethods, c.Method) {
		c.Available = true
		return c
	}
	if c.Method == "FuncForName" || c.Method == "ReflectCall" {
		c.Why = noDebugInfo()
		if c.Available = c.Why == ""; c.Available {
			c.Limits = "not functions that are generic or in assembly, or that have more than ten words of parameters; variadic parameters are slices"
		}
		return c
	}
	if c.Method == "CountEvent" {
		c.Available, c.Limits = true, "not for states, strings, annotations, and the variants Local and Label"
		return c
	}
	if c.Method == "HandleRaw" {
		c.Available, c.Class = canCheckRaw, ClassB
		if !c.Available {
			c.Why = "the code of callbacks can be checked on amd64 and arm64 only"
			return c
		}
		c.Limits = "for functions without calls; GoBlock*, GoSleep, GoStart, GoStop, GoPreempt, GoSysCall and GoSysExit"
		return c
	}
	for kind, limits := range overlayProfiles {
		if c.Method == kind.method() {
			c.Available, c.Limits = true, limits
			return c
		}
	}
	for ev, class := range overlayEvents {
		if ev.method() == c.Method {
			c.Available, c.Class, c.Limits = true, class, overlayLimits[ev]
			if c.Limits == "" && class == ClassA && ev < EvUserTaskCreate && !events[ev].atRegistration {
				c.Limits = "late where ordinary code may not run, and for goroutines of the runtime"
			}
			return c
		}
	}
	return o.stock.capability(c)
}

// record returns the record for callbacks.
func (r *rtRecord) record() Record {
	rec := Record{Event: Event(r.event), Late: r.late, Time: r.time, End: r.end, G: G{r.g, r.goid}}
	fields := events[r.event].fields
	if fields&(fieldArg0|fieldArg1) != 0 { // others are for streams
		rec.Args = r.args
	}
	if fields&fieldP != 0 {
		rec.P = P{rt_proc(r.p), r.p}
	}
	if r.by != 0 && fields&fieldBy != 0 {
		rec.By = G{r.by, r.byGoid}
	}
	return rec
}

func (o *overlay) enable(ev Event) error {
	if _, ok := overlayEvents[ev]; !ok {
		return o.capability(Capability{Method: ev.method()}).err()
	}
	o.set(func(enabled uint64) uint64 { return enabled | 1<<ev })
	return nil
}

func (o *overlay) disable(ev Event) {
	o.set(func(enabled uint64) uint64 { return enabled &^ (1 << ev) })
	if ev == EvString {
		o.strings.clear()
	}
}

func (o *overlay) set(change func(uint64) uint64) {
	o.changed.Lock()
	defer o.changed.Unlock()
	o.enabled = change(o.enabled)
	o.selectEvents()
}

// onlyUser is the bit of the mask that leaves out the goroutines of the runtime.
const onlyUser = 1

// selectEvents selects the events of the runtime, and starts the goroutine that reads the rings. The caller holds the lock.
func (o *overlay) selectEvents() {
	mask := o.enabled | o.streamMask
	o.mask.Store(mask)
	if o.enabled>>EvString&1 != 0 {
		mask |= stringEvents
	}
	if o.enabled == 0 && mask != 0 && !o.streamSystem {
		mask |= 1 << onlyUser
	}
	if o.enabled != 0 {
		rt_deliver(unsafe.Pointer(&o.sync))
	} else { // streams have no use for class A
		rt_deliver(nil)
	}
	rt_enable(mask)
	if mask != 0 && o.drains.CompareAndSwap(false, true) {
		go o.drain()
	}
}

func (o *overlay) hasCallbacks() bool {
	o.changed.Lock()
	defer o.changed.Unlock()
	return o.enabled != 0
}

// drain delivers the records of the buffers until no event is enabled. The runtime does not report events of its goroutine.
func (o *overlay) drain() {
	rt_quiet()
	buf, batch := make([]rtRecord, 1<<10), make([]StreamRecord, 1<<10)
	for {
		enabled := o.mask.Load() != 0
		began := nanotime()
		n := o.drainOnce(buf, batch)
		o.passed(began)
		o.rounds.Add(1)
		if !enabled {
			o.drains.Store(false)
			// An event that was enabled meanwhile has found this goroutine running.
			if o.mask.Load() == 0 || !o.drains.CompareAndSwap(false, true) {
				return
			}
		}
		drainWait(n)
	}
}

func (o *overlay) flush() {
	for end := o.rounds.Load() + 2; o.drains.Load() && o.rounds.Load() < end; { // a round may have begun before
		time.Sleep(drainEvery / 10)
	}
}

// drainOnce delivers what is in the buffers of the runtime, and returns how much that was. batch has room for what it passes on to streams.
func (o *overlay) drainOnce(buf []rtRecord, batch []StreamRecord) (all int) {
	for {
		n := rt_drain(buf)
		o.pass(buf[:n], batch)
		for i := range buf[:n] {
			o.emit(&buf[i])
		}
		if total := rt_lost(); total != o.lost {
			if o.hasCallbacks() || len(o.streams.get()) == 0 { // streams report it themselves
				lost(total - o.lost)
			}
			o.streams.lost.Store(total)
			o.lost = total
		}
		all += n
		if n < len(buf) {
			return all
		}
	}
}

func (*overlay) onPanic(call func(any)) error {
	rt_panicked(unsafe.Pointer(&call))
	return nil
}

func (*overlay) quiet() { rt_quiet() }

func (*overlay) current() G {
	g, id := rt_self()
	return G{g, id}
}

func (*overlay) countAllocs(on bool) error {
	rt_countAllocs(on)
	return nil
}

func (*overlay) allocs(g G) (a Allocations, ok bool) {
	if g.Addr == 0 {
		return a, false
	}
	a.Bytes, a.Objects, ok = rt_allocs(g.Addr, g.ID)
	return a, ok
}

func (*overlay) allocsEnded() (a Allocations) {
	a.Bytes, a.Objects = rt_allocsEnded()
	return a
}
