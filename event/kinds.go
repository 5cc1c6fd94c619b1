package event

import (
	"math/bits"
	"strings"
)

// Kinds is a set of kinds. The zero value is the empty set. Two sets are equal if they are equal by ==.
type Kinds struct{ low, high uint64 } // two words stay in registers, an array would not

// A set has room for 128 kinds. A further word is required beyond.
const _ = uint(128 - NumKinds)

// KindsOf returns the set that contains the given kinds.
func KindsOf(kinds ...Kind) Kinds {
	var s Kinds
	for _, k := range kinds {
		s.low |= 1 << k
		s.high |= 1 << (k - 64) // no bit if k is below 64, because the difference is unsigned
	}
	return s
}

// Has reports whether the set contains k.
func (s Kinds) Has(k Kind) bool {
	word := s.low
	if k >= 64 {
		word, k = s.high, k-64
	}
	return word>>k&1 != 0
}

// Contains reports whether the set contains every kind of another set.
func (s Kinds) Contains(other Kinds) bool { return s.Intersect(other) == other }

// IsEmpty reports whether the set contains no kind.
func (s Kinds) IsEmpty() bool { return s == Kinds{} }

// Union returns the kinds in s or in any other set.
func (s Kinds) Union(others ...Kinds) Kinds {
	for _, o := range others {
		s.low |= o.low
		s.high |= o.high
	}
	return s
}

// Intersect returns the kinds in both s and another set.
func (s Kinds) Intersect(other Kinds) Kinds { return Kinds{s.low & other.low, s.high & other.high} }

// Without returns the kinds in s that are not in another set.
func (s Kinds) Without(other Kinds) Kinds { return Kinds{s.low &^ other.low, s.high &^ other.high} }

// Words returns the set as bits: bit k%64 of word k/64 is kind k.
func (s Kinds) Words() [2]uint64 { return [2]uint64{s.low, s.high} }

// List returns the kinds in the set in ascending order.
func (s Kinds) List() []Kind {
	var list []Kind
	for i, word := range s.Words() {
		for ; word != 0; word &= word - 1 {
			list = append(list, Kind(64*i+bits.TrailingZeros64(word)))
		}
	}
	return list
}

// String returns the names of the kinds, separated by commas.
func (s Kinds) String() string {
	var names []string
	for _, k := range s.List() {
		names = append(names, k.String())
	}
	return strings.Join(names, ",")
}

// Kinds returns the kinds of a group that streams contain.
func (g Group) Kinds() Kinds {
	return kindsWith(func(d *Description) bool { return d.Group == g && d.Sources != OnlyCounted })
}

// kindsWith returns the kinds whose description has a property.
func kindsWith(has func(*Description) bool) Kinds {
	var s Kinds
	for k := Kind(1); k < numKinds; k++ {
		if has(k.Describe()) {
			s = s.Union(KindsOf(k))
		}
	}
	return s
}

// Common sets of kinds. They must not be modified.
var (
	// KindsGoroutine contains the kinds for the lifecycle and the scheduling of goroutines.
	KindsGoroutine = GroupGoroutine.Kinds()
	// KindsSyscall contains the kinds for system calls and calls of C code. Programs that use the network have a great
	// many of these events.
	KindsSyscall = GroupSyscall.Kinds()
	// KindsChannel contains the kinds for channel operations, including operations that do not block.
	KindsChannel = GroupChannel.Kinds()
	// KindsLock contains the kinds for operations on contended locks and semaphores.
	KindsLock = GroupLock.Kinds()
	// KindsGC contains the kinds for garbage collections, STW pauses and the size of the heap.
	KindsGC = GroupGC.Kinds()
	// KindsMemory contains the heap goal and the counters of allocations. They are sampled from the memory statistics of the
	// runtime, without a probe. If they are observed, HeapAlloc is sampled too.
	KindsMemory = GroupMemory.Kinds()
	// KindsUser contains the kinds for annotations that the program makes with runtime/trace, and for samples of the CPU
	// profiler. Probes do not observe these kinds: events are from execution traces, or of the requests of a live process
	// (loupe.SpanOptions.Tasks).
	KindsUser = GroupUser.Kinds()
	// KindsDefault contains the kinds that are observed by default.
	KindsDefault = KindsGoroutine.Union(KindsGC)
	// KindsAll contains all kinds that probes observe in a live process, which are all but KindsMemory. Lost, Exec and
	// Resample are always reported, even if a set does not contain them.
	KindsAll = kindsWith(func(d *Description) bool { return d.Sources&(FromProcess|OnlyCounted) != 0 })
	// KindsTrace contains all kinds that execution traces have.
	KindsTrace = kindsWith(func(d *Description) bool { return d.Sources&FromTrace != 0 })
)
