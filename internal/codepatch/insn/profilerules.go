package insn

// only finds the one address that test chooses.
func only(test refTest) finder {
	return func(v *evidenceView, fn string) (Ref, bool) { return one(v.of(fn), test) }
}

// takenTwice finds the one address that is computed more than once: that of a lock that is locked and unlocked.
func takenTwice(v *evidenceView, fn string) (Ref, bool) {
	refs := v.of(fn)
	element := func(r Ref) bool { return r.Index }
	return one(refs, func(r Ref) bool {
		return taken(r) && !has(refs, r.Addr, element) && has(refs, r.Addr, func(other Ref) bool { return taken(other) && other.PC != r.PC })
	})
}

// afterMemBuckets finds the n-th list of buckets that a new bucket can be inserted into after mbuckets: stkbucket
// selects one of mbuckets, xbuckets and bbuckets, in this order.
func afterMemBuckets(n int) finder {
	return func(v *evidenceView, fn string) (Ref, bool) {
		first, ok := one(v.of("runtime.mProf_FlushLocked"), reads(8))
		if !ok {
			return Ref{}, false
		}
		left, last := n+1, uint64(0)
		for _, r := range v.of(fn) {
			if left > n && r.Addr != first.Addr || r.Addr == last {
				continue
			}
			if last, left = r.Addr, left-1; left == 0 {
				return r, true
			}
		}
		return Ref{}, false
	}
}

// flagBeforeRate finds the flag that is read before MemProfileRate is set: zero if the flag is set.
func flagBeforeRate(v *evidenceView, fn string) (Ref, bool) {
	rate, ok := common(reads(8), fn, writes(8))(v, "runtime.profilealloc")
	if !ok {
		return Ref{}, false
	}
	var flag Ref
	for _, r := range v.of(fn) {
		if r.Addr == rate.Addr && writes(8)(r) {
			return flag, flag.Addr != 0
		}
		if reads(1)(r) {
			flag = r
		}
	}
	return Ref{}, false
}
