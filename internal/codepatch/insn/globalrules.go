package insn

// refTest chooses references.
type refTest func(Ref) bool

func reads(size int) refTest {
	return func(r Ref) bool { return r.Read && !r.Write && r.Size == size }
}

func writes(size int) refTest {
	return func(r Ref) bool { return r.Write && r.Size == size }
}

func taken(r Ref) bool { return r.AddressTaken() }

// has says whether one of refs is to addr and passes test.
func has(refs []Ref, addr uint64, test refTest) bool {
	for _, r := range refs {
		if r.Addr == addr && test(r) {
			return true
		}
	}
	return false
}

// one returns the first reference that passes test, if all that do are to the same address.
func one(refs []Ref, test refTest) (found Ref, ok bool) {
	for _, r := range refs {
		switch {
		case !test(r):
		case !ok:
			found, ok = r, true
		case r.Addr != found.Addr:
			return Ref{}, false
		}
	}
	return found, ok
}

// nthRead finds the n-th plain read of the given size, counted from 0.
func nthRead(size, n int) finder {
	return func(v *evidenceView, fn string) (Ref, bool) {
		left := n
		for _, r := range v.of(fn) {
			if reads(size)(r) {
				if left--; left < 0 {
					return r, true
				}
			}
		}
		return Ref{}, false
	}
}

// common finds the one address that mine chooses in the function and theirs in another.
func common(mine refTest, other string, theirs refTest) finder {
	return func(v *evidenceView, fn string) (Ref, bool) {
		there := v.of(other)
		return one(v.of(fn), func(r Ref) bool { return mine(r) && has(there, r.Addr, theirs) })
	}
}

// receiverOf finds the address that is computed last before the first call of method.
func receiverOf(method string) finder {
	return func(v *evidenceView, fn string) (found Ref, ok bool) {
		pc, called := v.callOf(fn, method)
		if !called {
			return Ref{}, false
		}
		for _, r := range v.of(fn) {
			if r.PC < pc && taken(r) {
				found, ok = r, true
			}
		}
		return found, ok
	}
}

// firstTaken finds the first address that is computed.
func firstTaken(v *evidenceView, fn string) (Ref, bool) {
	for _, r := range v.of(fn) {
		if taken(r) {
			return r, true
		}
	}
	return Ref{}, false
}

// callOf returns the address of the first call of callee in fn.
func (v *evidenceView) callOf(fn, callee string) (uint64, bool) {
	c, ok := v.lookup(fn)
	target, found := v.lookup(callee)
	if !ok || !found || len(c.Bytes) > maxRuntimeCode {
		return 0, false
	}
	calls, err := Calls(c)
	if err != nil {
		return 0, false
	}
	for _, call := range calls {
		if call.Target == target.Entry {
			return call.PC, true
		}
	}
	return 0, false
}

// firstSlice finds the slice (or string) that is read first: pointer and
// length, in either order.
func firstSlice(v *evidenceView, fn string) (Ref, bool) {
	refs := v.of(fn)
	for i, r := range refs {
		if !reads(8)(r) {
			continue
		}
		if has(refs[i:], r.Addr+8, reads(8)) {
			return r, true
		}
		if has(refs[i:], r.Addr-8, reads(8)) {
			r.Addr -= 8
			return r, true
		}
	}
	return Ref{}, false
}

// grownSlice finds the slice that is appended to: append stores the new
// capacity and, as the next static store, the new array.
func grownSlice(v *evidenceView, fn string) (Ref, bool) {
	refs := v.of(fn)
	var last Ref
	for _, r := range refs {
		if !writes(8)(r) || r.Read {
			continue
		}
		if last.Addr == r.Addr+16 && has(refs, r.Addr+8, writes(8)) && has(refs, r.Addr, reads(8)) {
			return r, true
		}
		last = r
	}
	return Ref{}, false
}

// storedOnly finds the one word outside a grown slice that is stored but never read by itself.
func storedOnly(v *evidenceView, fn string) (Ref, bool) {
	slice, ok := grownSlice(v, fn)
	if !ok {
		return Ref{}, false
	}
	refs := v.of(fn)
	return one(refs, func(r Ref) bool {
		return writes(8)(r) && r.Addr-slice.Addr >= 24 && !has(refs, r.Addr, reads(8))
	})
}

// readAndTaken finds the one word that is read and whose address is taken too,
// as it is for an atomic store with a write barrier.
func readAndTaken(v *evidenceView, fn string) (Ref, bool) {
	refs := v.of(fn)
	slice, _ := grownSlice(v, fn)
	return one(refs, func(r Ref) bool {
		return reads(8)(r) && r.Addr-slice.Addr >= 24 && has(refs, r.Addr, taken)
	})
}

// schedLock finds sched.lock: stopm locks nothing else first.
func schedLock(v *evidenceView) (uint64, bool) {
	for _, r := range v.of("runtime.stopm") {
		if taken(r) {
			return r.Addr, true
		}
	}
	return 0, false
}

// schedHead bounds the distance from the start of schedt to its lock. Before
// the lock stand only goidgen, lastpoll and similar counters (runtime2.go).
const schedHead = 64

// schedByGoid finds sched by goidgen, its first field, which newproc1 advances.
func schedByGoid(v *evidenceView, fn string) (Ref, bool) {
	lock, ok := schedLock(v)
	if !ok {
		return Ref{}, false
	}
	return one(v.of(fn), func(r Ref) bool { return lock-r.Addr-1 < schedHead })
}

// schedByLastPoll finds sched by lastpoll, its second field, which schedinit
// sets, provided that maxmcount is where it belongs.
func schedByLastPoll(v *evidenceView, fn string) (Ref, bool) {
	const maxMCount = 10000
	refs := v.of(fn)
	lock, ok := schedLock(v)
	if !ok {
		return Ref{}, false
	}
	_, ok = one(refs, func(r Ref) bool {
		return writes(4)(r) && r.Imm != nil && *r.Imm == maxMCount && r.Addr-lock < 2*schedHead
	})
	if !ok {
		return Ref{}, false
	}
	r, ok := one(refs, func(r Ref) bool {
		return (writes(8)(r) || taken(r)) && lock-r.Addr-1 < schedHead
	})
	r.Addr -= 8
	return r, ok
}

// unknownVersion finds the string that schedinit sets to "unknown" when it is
// empty: of that constant the length shows.
func unknownVersion(v *evidenceView, fn string) (Ref, bool) {
	refs := v.of(fn)
	r, ok := one(refs, func(r Ref) bool {
		return writes(8)(r) && r.Imm != nil && *r.Imm == int64(len("unknown")) &&
			has(refs, r.Addr, reads(8)) && has(refs, r.Addr-8, writes(8))
	})
	r.Addr -= 8
	return r, ok
}

// debugByCgocheck finds the GODEBUG settings by cgocheck, the first that is
// given a default. Before it stood allocfreetrace, to Go 1.15, which mallocgc
// reads.
func debugByCgocheck(v *evidenceView, fn string) (Ref, bool) {
	for _, r := range v.of(fn) {
		if !writes(4)(r) || r.Imm == nil || *r.Imm != 1 {
			continue
		}
		if has(v.of("runtime.mallocgc"), r.Addr-4, reads(4)) {
			r.Addr -= 4
		}
		return r, true
	}
	return Ref{}, false
}

// indexedStrings finds the only array of strings that is indexed.
func indexedStrings(v *evidenceView, fn string) (Ref, bool) { return nthIndexedStrings(v, fn, 0) }

// secondIndexedStrings finds the second array of strings that is indexed.
func secondIndexedStrings(v *evidenceView, fn string) (Ref, bool) { return nthIndexedStrings(v, fn, 1) }

func nthIndexedStrings(v *evidenceView, fn string, n int) (Ref, bool) {
	refs := v.of(fn)
	element := func(r Ref) bool { return r.Index && reads(8)(r) }
	for _, r := range refs {
		if !element(r) || !has(refs, r.Addr, taken) || !has(refs, r.Addr+8, element) {
			continue
		}
		if n--; n < 0 {
			return r, true
		}
	}
	return Ref{}, false
}

// maxWaitReasons bounds what is believed to be the number of wait reasons.
const maxWaitReasons = 1000

// waitReasonCount returns the bound that waitReason.String checks its receiver against.
func (v *evidenceView) waitReasonCount(array Global) int {
	const fn = "runtime.waitReason.String"
	c, ok := v.lookup(fn)
	if !ok || array.Addr == 0 || len(c.Bytes) > maxRuntimeCode {
		return 0
	}
	for _, n := range indexBounds(c) {
		if n > 1 && n < maxWaitReasons && v.valid(array.Addr, int(n)*16) {
			return int(n)
		}
	}
	return 0
}
