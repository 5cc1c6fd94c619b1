package sched

import (
	"unsafe"

	"github.com/loupe-go/loupe/event"
)

// slab is a list of values that never move and grows without copying.
type slab[T any] struct {
	blocks []*[slabBlock]T
	n      uint32
}

const slabBlock = 256

func (s *slab[T]) at(i uint32) *T { return &s.blocks[i/slabBlock][i%slabBlock] }

// grow adds a zero value and returns its number.
func (s *slab[T]) grow() uint32 {
	if s.n%slabBlock == 0 {
		s.blocks = append(s.blocks, new([slabBlock]T))
	}
	s.n++
	return s.n - 1
}

// Numbers of interned things that are always there. What exceeds a limit falls into the other ones and is counted.
const (
	originUnknown = 0
	originOther   = 1

	reasonNone  = 0
	reasonOther = 1
)

// otherStack replaces all stacks beyond a limit.
var otherStack = &event.Stack{}

// reason is a wait or stop reason, as text of the runtime and of the execution tracer.
type reason struct{ reason, trace string }

// Role says what goroutines do at a Place.
type Role uint8

// The roles.
const (
	Points   Role = iota // they were seen there; nothing is measured
	Waits                // they wait: GoBlock
	Wakes                // they end the wait of others: GoUnblock
	Stops                // they stop and stay runnable: GoStop
	Syscalls             // they enter a system call: GoSyscallBegin
)

// placeKey is the identity of a place.
type placeKey struct {
	stack  *event.Stack
	reason uint32
	role   Role
	_      [3]byte // a key without padding is hashed as one block of memory
}

// siteKey is the identity of a site: goroutines of one origin, created from one stack.
type siteKey struct {
	origin uint64
	stack  *event.Stack
}

// interned holds each reason, stack and origin once. The number of each is bounded.
type interned struct {
	maxReasons, maxPlaces, maxSites int

	reasons   []reason
	reasonIDs map[reason]uint32

	places   slab[place]
	placeIDs map[placeKey]uint32

	origins   []*event.Origin
	originIDs map[*event.Origin]uint32
	byValue   map[event.Origin]uint32 // equal origins may have several pointers

	sites   slab[site]
	siteIDs map[siteKey]uint32

	recent [256]uint32 // numbers of places, see recentPlace

	over Overflow
}

// Overflow counts events whose reason, place or site was one too many and was put with others, marked as such.
type Overflow struct{ Reasons, Places, Sites uint64 }

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
	// Number 0 of each table is unknown.
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
		in.over.Reasons++
		return reasonOther
	}
	id := uint32(len(in.reasons))
	in.reasons = append(in.reasons, r)
	in.reasonIDs[r] = id
	return id
}

// placeOf returns the number of the place of an event. It tries the last place of the goroutine first: most goroutines
// block where they blocked before.
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

// recentPlace returns the cache slot of the place of a stack and a role. Another place may have overwritten
// it.
func (in *interned) recentPlace(stack *event.Stack, role Role) *uint32 {
	const shift = 5 // the size of a Stack
	return &in.recent[uint8(uintptr(unsafe.Pointer(stack))>>shift)+uint8(role)<<4]
}

// placeID returns the number of a place. Beyond the limit there is one place for each reason and role: reasons are
// few, and are useful even if there are too many stacks.
func (in *interned) placeID(key placeKey) uint32 {
	if id, ok := in.placeIDs[key]; ok {
		return id
	}
	if len(in.placeIDs) >= in.maxPlaces {
		in.over.Places++
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

// siteID returns the number of the site of goroutines with an origin that are created from a stack.
func (in *interned) siteID(o *event.Origin, stack *event.Stack) uint32 {
	key := siteKey{uint64(in.originID(o)), stack}
	if id, ok := in.siteIDs[key]; ok {
		return id
	}
	if len(in.siteIDs) >= in.maxSites || key.origin == originOther {
		in.over.Sites++
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
