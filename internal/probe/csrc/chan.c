//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Channel operations of goroutines, whether they wait or not (runtime/chan.go, runtime/select.go).
 */

/* An event of a goroutine with a known stack. */
INLINE int chan_event(u32 kind, u32 tid, u64 goid, u64 object, u64 value, u64 stack)
{
	struct loupe_record *r = begin(kind, tid, goid);

	if (!r)
		return 0;
	r->arg = object;
	r->value = value;
	r->stack = stack;
	commit(r);
	return 0;
}

/*
 * Whether the current g can be read and matches the filters. It may be a thread's own: timers send on their channels from the
 * scheduler. Then the event has neither a goroutine nor a stack.
 */
INLINE int chan_actor(struct goroutine *gr, u32 kind, u64 g)
{
	if (read_any_g(gr, g))
		return wanted(gr->id);
	unreadable(kind);
	return 0;
}

/* func makechan(t *chantype, size int) *hchan, where it returns or stores the size */
PROBE(makechan)
{
	u32 tid = target_thread();

	if (!tid)
		return 0;

	u64 c, size;

	if (SITE(makechan).object_reg != LOUPE_NO_REG) {
		c = numbered_register(ctx, SITE(makechan).object_reg);
		size = numbered_register(ctx, SITE(makechan).value_reg);
	} else {
		c = CONFIG(reg_abi) ? arg_register(ctx, 0) : read_word(stack_pointer(ctx) + (s64)SITE(makechan).sp_moved + 8 + 16);
		size = c ? read_word(c + CONFIG(hchan_dataqsiz)) : 0;
	}

	struct goroutine gr;

	if (!chan_actor(&gr, ChanMake, CURRENT_G_OR_TLS(makechan)))
		return 0;
	return chan_event(ChanMake, tid, gr.id, c, size, 0);
}

#define CHAN_PROBE(function, kind)                                                             \
	PROBE(function)                                                                        \
	{                                                                                      \
		u32 tid = target_thread();                                                     \
		struct goroutine gr;                                                           \
                                                                                               \
		if (!tid || !CALLED(function) || !chan_actor(&gr, kind, CURRENT_G(function))) \
			return 0;                                                              \
		return chan_event(kind, tid, gr.id, ARG(function, 0, 0), 0, ACTOR_STACK(function, &gr)); \
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

	struct goroutine gr;

	if (!tid || !CALLED(selectgo) || !chan_actor(&gr, Select, CURRENT_G(selectgo)))
		return 0;

	u64 cases = ARG(selectgo, CONFIG(select_cases), CONFIG(select_cases) * 8);

	if (CONFIG(select_recvs) != LOUPE_NO_FIELD)
		cases += ARG(selectgo, CONFIG(select_recvs), CONFIG(select_recvs) * 8);
	return chan_event(Select, tid, gr.id, 0, cases, ACTOR_STACK(selectgo, &gr));
}

/* func semacquire1(addr *uint32, ...): called for a lock that is not free */
CHAN_PROBE(semacquire1, SemAcquire)

/* func semrelease1(addr *uint32, ...) */
CHAN_PROBE(semrelease1, SemRelease)
