package sched

import (
	"unsafe"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// slab is a list that grows without copying. Its values do not move.
type slab[T any] struct {
	blocks []*[slabBlock]T
	n      uint32
}

const slabBlock = 256

func (s *slab[T]) at(i uint32) *T { return &s.blocks[i/slabBlock][i%slabBlock] }

// grow appends a zero value and returns its index.
func (s *slab[T]) grow() uint32 {
	if s.n%slabBlock == 0 {
		s.blocks = append(s.blocks, new([slabBlock]T))
	}
	s.n++
	return s.n - 1
}

// Predefined numbers of origins and reasons. Values beyond a limit get the number of the "other" value, and are counted in
// Overflow.
const (
	originUnknown = 0
	originOther   = 1

	reasonNone  = 0
	reasonOther = 1
)

// otherStack stands for all stacks beyond a limit.
var otherStack = &event.Stack{}

// reason is a wait or stop reason, as spelled by the runtime and by the execution tracer.
type reason struct{ reason, trace string }

// A Role is what goroutines do at a [Place].
type Role uint8

// The roles of places.
const (
	Points   Role = iota // other events with a stack, such as ChanSend
	Waits                // goroutines wait: GoBlock
	Wakes                // goroutines unblock other goroutines: GoUnblock
	Stops                // goroutines stop and remain runnable: GoStop
	Syscalls             // goroutines enter system calls: GoSyscallBegin
)

// placeKey is the identity of a place.
type placeKey struct {
	stack  *event.Stack
	reason uint32
	role   Role
	_      [3]byte // explicit padding: the key is hashed as one block of memory
}

// siteKey is the identity of a site.
type siteKey struct {
	origin uint64
	stack  *event.Stack
}

// interned holds each reason, place, origin and site once, and assigns numbers to them. The number of each is limited.
type interned struct {
	maxReasons, maxPlaces, maxSites int

	reasons   []reason
	reasonIDs map[reason]uint32

	places   slab[place]
	placeIDs map[placeKey]uint32

	origins   []*event.Origin
	originIDs map[*event.Origin]uint32
	byValue   map[event.Origin]uint32 // equal origins can have different pointers

	sites   slab[site]
	siteIDs map[siteKey]uint32

	recent [256]uint32 // cache of place numbers, see recentPlace

	overflow Overflow
}

// Overflow counts events whose reason, place or site was combined with others, because a limit of [Options] was reached.
type Overflow struct {
	Reasons uint64 // events with a reason beyond the first 1,024
	Places  uint64 // events with a place beyond Options.MaxPlaces
	Sites   uint64 // events with a site beyond Options.MaxSites
}

func newInterned(opt Options) interned {
	in := interned{
		maxReasons: maxReasons, maxPlaces: opt.MaxPlaces, maxSites: opt.MaxSites,
		reasons:   []reason{reasonNone: {}, reasonOther: {reason: "(other)"}},
		reasonIDs: map[reason]uint32{{}: reasonNone},
		placeIDs:  map[placeKey]uint32{},
		origins:   []*event.Origin{originUnknown: nil, originOther: {}},
		originIDs: map[*event.Origin]uint32{nil: originUnknown},
		byValue:   map[event.Origin]uint32{},
		siteIDs:   map[siteKey]uint32{},
	}
	// Number 0 of each table means unknown.
	in.addPlace(placeKey{})
	in.siteID(nil, nil)
	return in
}

// reasonID returns the number of a reason.
func (in *interned) reasonID(text, trace string) uint32 {
	r := reason{text, trace}
	if id, ok := in.reasonIDs[r]; ok {
		return id
	}
	if len(in.reasons) >= in.maxReasons {
		in.overflow.Reasons++
		return reasonOther
	}
	id := uint32(len(in.reasons))
	in.reasons = append(in.reasons, r)
	in.reasonIDs[r] = id
	return id
}

// placeOf returns the number of the place of an event. It compares the last place of the goroutine first, because most
// goroutines block where they blocked before.
func (in *interned) placeOf(last uint32, role Role, e *event.Event) uint32 {
	p := in.places.at(last)
	if p.stack == e.Stack && p.role == role && p.text == e.Reason && p.trace == e.TraceReason {
		return last
	}
	recent := in.recentPlace(e.Stack, role)
	p = in.places.at(*recent)
	if p.stack != e.Stack || p.role != role || p.text != e.Reason || p.trace != e.TraceReason {
		*recent = in.placeID(placeKey{stack: e.Stack, reason: in.reasonID(event.WaitText(e.Reason, e.Stack.RuntimeWork()), e.TraceReason), role: role})
	}
	return *recent
}

// recentPlace returns the cache slot for places with a stack and a role. The slot can contain another place.
func (in *interned) recentPlace(stack *event.Stack, role Role) *uint32 {
	const shift = 5 // the size of a Stack
	return &in.recent[uint8(uintptr(unsafe.Pointer(stack))>>shift)+uint8(role)<<4]
}

// placeID returns the number of a place. Beyond the limit, there is one place for each reason and role. Reasons are few, and
// useful without a stack.
func (in *interned) placeID(key placeKey) uint32 {
	if id, ok := in.placeIDs[key]; ok {
		return id
	}
	if len(in.placeIDs) >= in.maxPlaces {
		in.overflow.Places++
		key.stack = otherStack
		if id, ok := in.placeIDs[key]; ok {
			return id
		}
	}
	return in.addPlace(key)
}

func (in *interned) addPlace(key placeKey) uint32 {
	id := in.places.grow()
	p := in.places.at(id)
	r := in.reasons[key.reason]
	p.stack, p.role, p.reason, p.text, p.trace = key.stack, key.role, key.reason, r.reason, r.trace
	p.collects = key.role == Waits && gostate.WaitOf(r.reason) == gostate.WaitGC
	in.placeIDs[key] = id
	return id
}

// originID returns the number of an origin.
func (in *interned) originID(o *event.Origin) uint32 {
	if id, ok := in.originIDs[o]; ok {
		return id
	}
	id, ok := in.byValue[*o]
	if !ok {
		if len(in.origins) >= in.maxSites {
			return originOther
		}
		id = uint32(len(in.origins))
		in.origins = append(in.origins, o)
		in.byValue[*o] = id
	}
	if len(in.originIDs) < 2*in.maxSites {
		in.originIDs[o] = id
	}
	return id
}

// siteID returns the number of the site for an origin and a creation stack.
func (in *interned) siteID(o *event.Origin, stack *event.Stack) uint32 {
	key := siteKey{uint64(in.originID(o)), stack}
	if id, ok := in.siteIDs[key]; ok {
		return id
	}
	if len(in.siteIDs) >= in.maxSites || key.origin == originOther {
		in.overflow.Sites++
		key.stack = otherStack
		if id, ok := in.siteIDs[key]; ok {
			return id
		}
	}
	id := in.sites.grow()
	s := in.sites.at(id)
	s.origin, s.stack = uint32(key.origin), stack
	if key.stack == otherStack {
		s.stack = otherStack
	}
	in.siteIDs[key] = id
	return id
}
