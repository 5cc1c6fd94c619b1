//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The garbage collector and STW pauses (runtime/mgc.go, runtime/proc.go). They are reported whichever
 * goroutines are selected, because they concern the whole program, except mark assists (runtime/mgcmark.go).
 */

INLINE void heap(u32 tid)
{
	if (!CONFIG(heap_live) || !reported(HeapAlloc))
		return;

	struct loupe_record *r = begin(HeapAlloc, tid, 0);

	if (!r)
		return;
	r->value = read_word(CONFIG(heap_live));
	commit(r);
}

/* func gcBgMarkStartWorkers(): called once by each collection, by the goroutine that starts it */
PROBE(gcBgMarkStartWorkers)
{
	u32 tid = target_thread();

	if (!tid || !CALLED(gcBgMarkStartWorkers))
		return 0;
	if (reported(GCBegin)) {
		struct goroutine gr;

		if (read_goroutine(&gr, CURRENT_G(gcBgMarkStartWorkers)))
			emit(GCBegin, tid, gr.id, 0, OWN_STACK(gcBgMarkStartWorkers, &gr));
		else
			emit(GCBegin, tid, 0, 0, 0);
	}
	heap(tid);
	return 0;
}

/* func gcMarkTermination(...) */
PROBE(gcMarkTermination)
{
	u32 tid = target_thread();

	if (tid && CALLED(gcMarkTermination))
		emit(GCEnd, tid, 0, 0, 0);
	return 0;
}

/* func gcSweep(mode gcMode): the live heap has been counted */
PROBE(gcSweep)
{
	u32 tid = target_thread();

	if (tid && CALLED(gcSweep))
		heap(tid);
	return 0;
}

/* func stopTheWorldWithSema(reason stwReason), on a thread's own g */
PROBE(stopTheWorldWithSema)
{
	u32 tid = target_thread();

	if (!tid || !CALLED(stopTheWorldWithSema))
		return 0;

	struct goroutine gr;
	u64 stack = 0;

	if (read_goroutine(&gr, user_g(CURRENT_G(stopTheWorldWithSema))))
		stack = system_stack(&gr);
	else
		gr.id = 0;

	struct loupe_record *r = begin(STWBegin, tid, gr.id);

	if (!r)
		return 0;
	r->stack = stack;
	if (CONFIG(stw_reason)) {
		r->reason = ARG(stopTheWorldWithSema, 0, 0);
		r->flags = LOUPE_HAS_REASON;
	}
	commit(r);
	return 0;
}

/* func startTheWorldWithSema(...), on a thread's own g */
PROBE(startTheWorldWithSema)
{
	u32 tid = target_thread();

	if (tid && CALLED(startTheWorldWithSema))
		emit(STWEnd, tid, 0, 0, 0);
	return 0;
}

/*
 * gcAssistAlloc1(gp *g, scanWork int64), on a thread's own g, calls gcDrainN to mark, and then casgstatus to run the goroutine
 * again. The goroutine waits meanwhile, but the thread works for it.
 */
PROBE(gcAssistAlloc1_gcDrainN)
{
	u32 tid = target_thread();
	struct goroutine gr;

	if (!tid)
		return 0;
	if (!read_goroutine(&gr, user_g(CURRENT_G_OR_TLS(gcAssistAlloc1_gcDrainN))))
		unreadable(GCMarkAssistBegin);
	else if (wanted(gr.id))
		emit(GCMarkAssistBegin, tid, gr.id, 0, system_stack(&gr));
	return 0;
}

/* func casgstatus(gp *g, oldval, newval uint32), called by gcAssistAlloc1 */
PROBE(gcAssistAlloc1_casgstatus)
{
	u32 tid = target_thread();

	if (!tid || (u32)ARG(gcAssistAlloc1_casgstatus, 1, 8) != CONFIG(st_waiting))
		return 0;

	u64 goid = goid_of(ARG(gcAssistAlloc1_casgstatus, 0, 0));

	if (!goid)
		unreadable(GCMarkAssistEnd);
	else if (wanted(goid))
		emit(GCMarkAssistEnd, tid, goid, 0, 0);
	return 0;
}
