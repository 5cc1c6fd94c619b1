//go:build loupe_glti

package glti

import "sync"

// rtID is runtime.gltiID.
type rtID struct {
	g    uintptr
	goid uint64
}

// The numbers that the runtime packs into the second argument of a GoStart, GoUnblock or GoSysExit (patches/sched.patch and syscall.patch).
const (
	localBit    = 1 // the goroutine is on the processor of its last event
	workerShift = 1 // what is above is the mode of a worker of the garbage collector, 0 for other goroutines
)

// workerLabels are the labels of workers by their modes, as in execution traces (runtime.gcMarkWorkerModeStrings).
var workerLabels = [...]string{1: "GC (dedicated)", 2: "GC (fractional)", 3: "GC (idle)"}

// localVariants are the events that are delivered in addition if the goroutine is on the processor of its last event.
var localVariants = [endEvent]Event{EvGoStart: EvGoStartLocal, EvGoUnblock: EvGoUnblockLocal, EvGoSysExit: EvGoSysExitLocal}

// emit delivers a record of the rings, and the variants of its event.
func (o *overlay) emit(r *rtRecord) {
	rec := r.record()
	o.deliverEnabled(rec)
	variant := localVariants[rec.Event]
	if variant == 0 {
		return
	}
	if r.args[1]&localBit != 0 {
		rec := rec
		rec.Event = variant
		o.deliverEnabled(rec)
	}
	if worker := r.args[1] >> workerShift; worker != 0 && worker < uint64(len(workerLabels)) {
		rec.Event, rec.Text[0] = EvGoStartLabel, workerLabels[worker]
		o.deliverEnabled(rec)
	}
}

func (o *overlay) deliverEnabled(r Record) {
	if o.mask.Load()>>r.Event&1 != 0 {
		deliver(r)
	}
}

// describe calls call with the goroutines that are in the state of an event, or with the strings that are known.
func (o *overlay) describe(ev Event, call func(Record)) {
	if ev == EvString {
		for _, s := range o.strings.all() {
			call(Record{Event: EvString, Time: Now(), Text: [2]string{s}})
		}
		return
	}
	list := make([]rtID, 256)
	n := rt_inState(uint8(ev), list)
	for n > len(list) {
		list = make([]rtID, n+n/4)
		n = rt_inState(uint8(ev), list)
	}
	now := Now()
	for _, id := range list[:n] {
		call(Record{Event: ev, Time: now, G: G{id.g, id.goid}})
	}
}

// annotate delivers an annotation, and before it the strings that it is the first to use.
func (o *overlay) annotate(r Record) {
	if o.mask.Load()>>EvString&1 != 0 {
		for _, s := range r.Text {
			if s != "" && o.strings.add(s) {
				deliver(Record{Event: EvString, Time: r.Time, Text: [2]string{s}})
			}
		}
	}
	deliver(r)
}

// stringEvents are the events that the runtime must report so that the strings are known.
const stringEvents = 1<<EvUserTaskCreate | 1<<EvUserRegion | 1<<EvUserLog

// maxStrings is the size in bytes of the strings that are remembered.
const maxStrings = 1 << 20

// stringTable has the strings that were delivered. If there are too many, it forgets all, and they are delivered again.
type stringTable struct {
	mu   sync.Mutex
	seen map[string]bool
	size int
}

// add adds a string, and reports whether it is new.
func (t *stringTable) add(s string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen[s] {
		return false
	}
	if t.seen == nil || t.size+len(s) > maxStrings {
		t.seen, t.size = map[string]bool{}, 0
	}
	t.seen[s] = true
	t.size += len(s)
	return true
}

func (t *stringTable) all() (list []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.seen {
		list = append(list, s)
	}
	return list
}

func (t *stringTable) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen, t.size = nil, 0
}
