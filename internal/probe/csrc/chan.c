//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What goroutines do with channels, whether they wait or not (runtime/chan.go, runtime/select.go).
 */

INLINE int chan_event(u32 kind, u32 tid, u64 g, u64 object, u64 value, u64 stack)
{
	u64 goid = goid_of(g);

	if (!goid) {
		unreadable(kind);
		return 0;
	}
	if (!wanted(goid))
		return 0;

	struct loupe_record *r = begin(kind, tid, goid);

	if (!r)
		return 0;
	r->arg = object;
	r->value = value;
	r->stack = stack;
	commit(r);
	return 0;
}

/* func makechan(t *chantype, size int) *hchan, where it returns */
PROBE(makechan)
{
	u32 tid = target_thread();

	if (!tid)
		return 0;

	u64 c = CONFIG(reg_abi) ? arg_register(ctx, 0) : read_word(stack_pointer(ctx) + (s64)SITE(makechan).sp_moved + 8 + 16);

	return chan_event(ChanMake, tid, CURRENT_G_OR_TLS(makechan), c, c ? read_word(c + CONFIG(hchan_dataqsiz)) : 0, 0);
}

#define CHAN_PROBE(function, kind)                                                             \
	PROBE(function)                                                                        \
	{                                                                                      \
		u32 tid = target_thread();                                                     \
		u64 g;                                                                         \
                                                                                               \
		if (!tid || !CALLED(function))                                                 \
			return 0;                                                              \
		g = CURRENT_G(function);                                                       \
		return chan_event(kind, tid, g, ARG(function, 0, 0), 0, OWN_STACK(function, g)); \
	}

/* func chansend(c *hchan, ep unsafe.Pointer, block bool, callerpc uintptr) bool */
CHAN_PROBE(chansend, ChanSend)

/* func chanrecv(c *hchan, ep unsafe.Pointer, block bool) (selected, received bool) */
CHAN_PROBE(chanrecv, ChanReceive)

/* func closechan(c *hchan) */
CHAN_PROBE(closechan, ChanClose)

/* func selectgo(cas0 *scase, order0 *uint16, pc0 *uintptr, nsends, nrecvs int, block bool) (int, bool) */
PROBE(selectgo)
{
	u32 tid = target_thread();

	if (!tid || !CALLED(selectgo))
		return 0;

	u64 g = CURRENT_G(selectgo);
	u64 cases = ARG(selectgo, CONFIG(select_cases), CONFIG(select_cases) * 8);

	if (CONFIG(select_recvs) != LOUPE_NO_FIELD)
		cases += ARG(selectgo, CONFIG(select_recvs), CONFIG(select_recvs) * 8);
	return chan_event(Select, tid, g, 0, cases, OWN_STACK(selectgo, g));
}

/* func semacquire1(addr *uint32, ...): a lock was not free at once */
CHAN_PROBE(semacquire1, SemAcquire)

/* func semrelease1(addr *uint32, ...) */
CHAN_PROBE(semrelease1, SemRelease)
