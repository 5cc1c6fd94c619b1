package probe

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/sampling"
)

// decoder converts records to events. It caches stacks and origins, which are sent or looked up once.
type decoder struct {
	names    namer
	newEpoch func() // makes the probes send all stacks again
	pid      int32
	offset   int64 // from the monotonic clock to Unix time, in nanoseconds
	kinds    event.Kinds

	allocated func(goroutine, bytes, objects uint64) // Want.Allocated
	packed    bool                                   // records of waits have numbers for it

	waitReasons, traceReasons, stwReasons []string
	lockOffset                            uint64 // of a channel's lock in the channel

	stacks, olderStacks map[uint64]*event.Stack
	recent              [256]recentStack // the most recently used stacks, found without hashing
	origins             map[originKey]*event.Origin
	system              map[uint64]bool // goroutines of the runtime that were alive at the start; nil if they are included
	lastSystem          uint64          // the largest ID of these

	rule sampling.Rule // selects the goroutines whose events are yielded

	lost     uint32 // in the last record
	missing  bool   // the number of events missing before the next one is unknown
	received [event.KindLimit]uint64
	garbled  uint64 // records that could not be decoded

	sets    []*Set // in addition to that of the runtime
	noted   []SetCounts
	current Note

	ev event.Event
}

// hide excludes a goroutine of the runtime.
func (d *decoder) hide(goroutine uint64) {
	if d.system == nil {
		d.system = map[uint64]bool{}
	}
	d.system[goroutine] = true
	d.lastSystem = max(d.lastSystem, goroutine)
}

// namer resolves the addresses of a program: a goproc.Process.
type namer interface {
	Frames(pcs []uint64, hidden uint64) []event.Frame
	Origin(gopc, startpc uint64) event.Origin
}

type originKey struct{ gopc, startpc uint64 }

type recentStack struct {
	id    uint64
	stack *event.Stack
}

// Limits on the decoder's memory, far beyond the needs of real programs. When a limit is reached, the table is cleared
// and the probes send all stacks again.
const (
	maxStacks  = 1 << 17
	maxOrigins = 1 << 17
)

func newDecoder(p *goproc.Process, engine Engine, plan *Plan, offset int64) *decoder {
	l := p.Layout()
	d := &decoder{
		names: p, newEpoch: engine.NewEpoch, pid: int32(p.PID()), offset: offset, kinds: plan.Want.Kinds,
		waitReasons: p.Binary().WaitReasons(), stwReasons: l.Strings("runtime.stwReasonStrings"),
		traceReasons: l.Strings("runtime.traceBlockReasonStrings"),
		stacks:       map[uint64]*event.Stack{}, origins: map[originKey]*event.Origin{},
		allocated: plan.Want.Allocated, packed: plan.Want.PacksAllocated(),
		sets: plan.Want.Sets, noted: make([]SetCounts, len(plan.Want.Sets)),
	}
	if !plan.Want.Requests { // a goroutine that a request's goroutine wakes is reported, too
		d.rule = plan.Rule
	}
	if f, ok := l.Field("runtime.hchan.lock"); ok {
		d.lockOffset = uint64(f.Offset)
	}
	return d
}

const (
	recordSize = int(unsafe.Sizeof(csrc.Record{}))
	createSize = int(unsafe.Sizeof(csrc.Create{}))
)

// decode calls yield with the events of one record. It returns false if yield did.
func (d *decoder) decode(raw []byte, yield func(*event.Event) bool) bool {
	if len(raw) < recordSize {
		d.garbled++
		return true
	}
	r := (*csrc.Record)(unsafe.Pointer(unsafe.SliceData(raw))) // records are aligned to eight bytes
	if r.Kind == csrc.KindStack {
		d.addStack(r, raw[recordSize:])
		return true
	}
	if r.Kind == uint8(event.Lost) {
		d.missing = true
		return true
	}
	d.received[r.Kind]++
	if r.Lost != d.lost || d.missing {
		if !d.addLost(int64(r.Time), r.Lost, yield) {
			return false
		}
	}
	if isNote(r.Kind, len(d.sets)) {
		d.note(r, raw)
		return true
	}
	if r.G <= d.lastSystem && d.system[r.G] && r.Kind != uint8(event.GoDestroy) && !gostate.OfProgram().Has(event.Kind(r.Kind)) {
		return true // events of the whole program are reported for all goroutines
	}
	if !d.rule.Selects(r.G) && r.Kind != csrc.KindSwitch && !gostate.OfProgram().Has(event.Kind(r.Kind)) {
		return true // the probe still applied an earlier rule
	}
	ev := &d.ev
	clearEvent(ev)
	ev.Time, ev.Kind, ev.PID, ev.TID = int64(r.Time)+d.offset, event.Kind(r.Kind), d.pid, int32(r.Tid)
	ev.G, ev.Stack = r.G, d.stack(r.Stack)
	if d.allocated != nil {
		d.account(r)
	}
	if r.Kind == csrc.KindSwitch {
		return d.yieldSwitch(r, yield)
	}
	if !d.fill(ev, r, raw) {
		return true
	}
	return yield(ev)
}

// account passes on what a goroutine has allocated.
func (d *decoder) account(r *csrc.Record) {
	if r.Kind == uint8(event.GoDestroy) {
		d.allocated(r.G, r.Value, r.Arg)
	}
	if !d.packed {
		return
	}
	g := r.G
	switch r.Kind {
	case uint8(event.GoUnblock):
		g = r.Arg
	case uint8(event.GoBlock), uint8(event.GoSyscallBegin), csrc.KindSwitch:
	default:
		return
	}
	if g != 0 && r.Value != 0 {
		d.allocated(g, r.Value&(1<<csrc.BytesBits-1), r.Value>>csrc.BytesBits)
	}
}

// clearEvent clears an event. Assigning an empty event is slower, because each pointer has a write barrier.
func clearEvent(ev *event.Event) {
	ev.Time, ev.Kind, ev.PID, ev.TID, ev.P = 0, 0, 0, 0, 0
	ev.G, ev.Parent, ev.By, ev.Object, ev.Value = 0, 0, 0, 0, 0
	ev.Reason, ev.TraceReason, ev.State, ev.Text = "", "", "", ""
	ev.Origin, ev.Stack = nil, nil
}

// fill sets the fields that depend on the kind. It returns false if the event is not reported.
func (d *decoder) fill(ev *event.Event, r *csrc.Record, raw []byte) bool {
	switch ev.Kind {
	case event.GoCreate:
		if len(raw) < createSize {
			d.garbled++
			return false
		}
		c := (*csrc.Create)(unsafe.Pointer(unsafe.SliceData(raw)))
		d.fillCreate(ev, c)
	case event.GoBlock:
		ev.Reason, ev.TraceReason = text(d.waitReasons, r.Reason, "wait reason"), text(d.traceReasons, r.TraceReason, "")
		if !d.packed {
			ev.Value = int64(r.Value)
		}
		if ev.Reason == "chan receive" || ev.Reason == "chan send" {
			ev.Object = r.Arg - d.lockOffset
		}
	case event.GoUnblock:
		ev.By = r.Arg
	case event.GoStart:
		ev.P = event.Proc(r.Proc)
	case event.GoStop:
		ev.Reason = event.StopGosched
		if r.Flags&csrc.FlagPreempted != 0 {
			ev.Reason = event.StopPreempted
		}
	case event.GoDestroy:
		if d.system[r.G] {
			delete(d.system, r.G)
			return false
		}
	case event.STWBegin:
		if r.Flags&csrc.FlagHasReason != 0 {
			ev.Reason = text(d.stwReasons, r.Reason, "stop reason")
		}
	case event.GoSyscallBegin:
	default:
		ev.Object, ev.Value = r.Arg, int64(r.Value)
	}
	return true
}

func (d *decoder) fillCreate(ev *event.Event, c *csrc.Create) {
	ev.Parent = c.R.Arg
	gopc := c.Gopc
	if c.R.Flags&csrc.FlagNoParent != 0 {
		ev.Parent, gopc = 0, 0
	}
	if c.R.Flags&csrc.FlagWaiting != 0 {
		ev.State = event.StateWaiting
	}
	ev.Origin = d.origin(gopc, c.Startpc)
}

// text returns a text of the runtime by its number. what names the set of texts in the text for an unknown number;
// if it is empty, unknown numbers have no text.
func text(texts []string, n uint8, what string) string {
	if int(n) < len(texts) {
		return texts[n]
	}
	if what == "" || len(texts) == 0 && n == 0 {
		return ""
	}
	return fmt.Sprintf("unknown %s %d", what, n)
}

// yieldSwitch yields the events of a switch from one coroutine to another.
func (d *decoder) yieldSwitch(r *csrc.Record, yield func(*event.Event) bool) bool {
	first := d.ev
	step := func(kind event.Kind, g, by uint64) bool {
		if !d.kinds.Has(kind) {
			return true
		}
		d.ev = first
		d.ev.Kind, d.ev.G, d.ev.By = kind, g, by
		switch kind {
		case event.GoBlock:
			d.ev.Reason = text(d.waitReasons, r.Reason, "wait reason")
		case event.GoStart, event.GoDestroy:
			d.ev.Stack = nil
		}
		return yield(&d.ev)
	}
	end := event.GoBlock
	if r.Flags&csrc.FlagSwitchExit != 0 {
		end = event.GoDestroy
	}
	if d.rule.Selects(r.G) && !step(end, r.G, 0) {
		return false
	}
	return !d.rule.Selects(r.Arg) || step(event.GoUnblock, r.Arg, r.G) && step(event.GoStart, r.Arg, 0)
}

// addLost yields an event that marks missing events, if there are any. lost is how many records were lost until now, which is on
// the monotonic clock. It returns false if yield did.
func (d *decoder) addLost(now int64, lost uint32, yield func(*event.Event) bool) bool {
	more := max(0, int32(lost-d.lost))
	if more == 0 && !d.missing {
		return true
	}
	d.lost, d.missing = d.lost+uint32(more), false
	d.ev = event.Event{Time: now + d.offset, Kind: event.Lost, PID: d.pid, Value: int64(more)}
	return yield(&d.ev)
}

// addStack stores the addresses of a stack.
func (d *decoder) addStack(r *csrc.Record, raw []byte) {
	n := int(r.Value)
	if r.Value > uint64(csrc.MaxStack) || n*8 > len(raw) {
		d.garbled++
		return
	}
	if len(d.stacks) >= maxStacks {
		// Records in the buffer still refer to the old IDs.
		d.olderStacks, d.stacks = d.stacks, map[uint64]*event.Stack{}
		d.newEpoch()
	}
	pcs := make([]uint64, n)
	for i := range pcs {
		pcs[i] = binary.LittleEndian.Uint64(raw[i*8:])
	}
	d.stacks[r.Stack] = &event.Stack{Frames: d.names.Frames(pcs, r.Arg), Truncated: r.Flags != 0}
}

// stack returns the stack with the given ID, or nil if its addresses were lost.
func (d *decoder) stack(id uint64) *event.Stack {
	if id == 0 {
		return nil
	}
	recent := &d.recent[id>>1%uint64(len(d.recent))] // the lowest bit is always set
	if recent.id == id {
		return recent.stack
	}
	s, ok := d.stacks[id]
	if !ok {
		s = d.olderStacks[id]
	}
	if s != nil {
		*recent = recentStack{id, s}
	}
	return s
}

// origin returns where a goroutine was created.
func (d *decoder) origin(gopc, startpc uint64) *event.Origin {
	key := originKey{gopc, startpc}
	if o, ok := d.origins[key]; ok {
		return o
	}
	if len(d.origins) >= maxOrigins {
		clear(d.origins)
	}
	o := d.names.Origin(gopc, startpc)
	d.origins[key] = &o
	return &o
}
