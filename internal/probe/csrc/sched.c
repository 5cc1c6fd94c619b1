//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The life of goroutines (runtime/proc.go).
 */

/* What a goroutine has allocated, in one word. */
INLINE u64 allocated_packed(u64 goid)
{
	const u64 most_bytes = (1ull << LOUPE_BYTES_BITS) - 1, most_objects = (1ull << (64 - LOUPE_BYTES_BITS)) - 1;
	const struct loupe_allocated *a = allocated_by(goid);

	if (!a)
		return 0;
	return (a->objects < most_objects ? a->objects : most_objects) << LOUPE_BYTES_BITS | (a->bytes < most_bytes ? a->bytes : most_bytes);
}

COMMON void emit(u32 kind, u32 tid, u64 goid, u64 arg, u64 stack)
{
	struct loupe_record *r = begin(kind, tid, goid);

	if (!r)
		return;
	r->arg = arg;
	r->stack = stack;
	if (kind == GoUnblock || kind == GoSyscallBegin)
		r->value = allocated_packed(kind == GoUnblock ? arg : goid);
	commit(r);
}

/* A wait begins: it is reported at once, or stored if only long waits are reported. */
COMMON void block(u32 tid, u64 goid, u8 reason, u8 trace_reason, u64 lock, u64 stack)
{
	if (CONFIG(min_block)) {
		struct loupe_wait w = {
			.time = event_time(goid), .stack = stack, .lock = lock, .tid = tid,
			.reason = reason, .trace_reason = trace_reason,
		};

		if (!wait_begin(goid, &w))
			unreadable(GoBlock);
		return;
	}

	struct loupe_record *r = begin(GoBlock, tid, goid);

	if (!r)
		return;
	r->reason = reason;
	r->trace_reason = trace_reason;
	r->arg = lock;
	r->value = allocated_packed(goid);
	r->stack = stack;
	commit(r);
}

/* Reports a wait that has ended, if it was long. Returns whether to report its end. */
COMMON int end_wait(u64 goid)
{
	struct loupe_wait w;

	if (!CONFIG(min_block))
		return 1;
	if (!wait_end(goid, &w))
		return 0;
	if (event_time(goid) - w.time < CONFIG(min_block))
		return 0;

	struct loupe_record *r = begin(GoBlock, w.tid, goid);

	if (r) {
		r->value = r->time - w.time; /* so both say when this record was made */
		r->time = w.time;
		r->reason = w.reason;
		r->trace_reason = w.trace_reason;
		r->arg = w.lock;
		r->stack = w.stack;
		commit(r);
	}
	return 1;
}

/* A wait ends of a goroutine that is not sampled. It may have been when the wait began. */
COMMON void forget_wait(u64 goid)
{
	struct loupe_wait w;

	if (CONFIG(min_block) && !in_sample(goid))
		wait_end(goid, &w);
}

/*
 * The stack of the goroutine on whose behalf a thread with the g current works: the goroutine's own while current is the goroutine
 * itself. Then top and fp are its location (see hash_slowly).
 */
INLINE u64 acting_stack(const struct goroutine *gr, u64 current, u64 top, u64 fp)
{
	return gr->g == current ? stack_of(gr, 0, top, fp) : system_stack(gr);
}

/*
 * A thread with the g current (0 if unknown) and the frame pointer fp makes gp runnable. What a goroutine of a request makes runnable is
 * reported for any gp, because it may hand work to it.
 */
COMMON void unblock(u32 tid, u64 gp, u64 current, u64 fp)
{
	struct goroutine waker;
	u64 goid = goid_of(gp), by = 0;

	if (!goid) {
		unreadable(GoUnblock);
		return;
	}
	if (wanted(goid)) {
		if (!end_wait(goid))
			return;
		by = user_g(current);
	} else if (CONFIG(follow)) {
		by = user_g(current);
		if (!is_listed(goid_of(by)))
			return;
	} else {
		forget_wait(goid);
		return;
	}
	if (read_goroutine(&waker, by))
		emit(GoUnblock, tid, goid, waker.id, acting_stack(&waker, current, 0, fp));
	else
		emit(GoUnblock, tid, goid, 0, 0);
}

/* func gopark(unlockf func(*g, unsafe.Pointer) bool, lock unsafe.Pointer, reason waitReason, traceReason, traceskip int) */
PROBE(gopark)
{
	u32 tid = thread_if(may_be_listed(CURRENT_G(gopark)));

	if (!tid || !CALLED(gopark))
		return 0;

	struct goroutine gr;

	if (!read_goroutine(&gr, CURRENT_G(gopark))) {
		unreadable(GoBlock);
	} else if (wanted(gr.id)) {
		thread_stops();
		block(tid, gr.id, ARG(gopark, 2, 16), ARG(gopark, 3, 17), ARG(gopark, 1, 8), OWN_STACK(gopark, &gr));
	}
	return 0;
}

/* func ready(gp *g, traceskip int, next bool), on a thread's own g */
PROBE(ready)
{
	u32 tid = thread_if(any_listed());

	if (tid && CALLED(ready))
		unblock(tid, ARG(ready, 0, 0), CURRENT_G(ready), 0);
	return 0;
}

/* Whether a new goroutine is of no interest, because the one that creates it is not listed. Only the new one is read. */
INLINE int unfollowed(u64 newg)
{
	return CONFIG(follow) && CONFIG(g_parent) != LOUPE_NO_FIELD && newg && !is_listed(read_word(newg + CONFIG(g_parent)));
}

/* The goroutine creator creates newg: itself if it has a frame pointer fp and a return address top, else its thread for it. */
COMMON void create(u32 tid, u64 newg, u64 creator, u64 top, u64 fp, u32 flags)
{
	struct newborn new;

	if (CONFIG(follow) && CONFIG(g_parent) == LOUPE_NO_FIELD && !is_listed(goid_of(creator)))
		return;
	if (!read_newborn(&new, newg)) {
		unreadable(GoCreate);
		return;
	}
	if (CONFIG(skip_listed) && is_system_start(new.startpc)) {
		list_add(newg, new.id);
		return;
	}
	if (CONFIG(follow) ? CONFIG(allocated) : allocated_by(goid_of(creator)) != 0)
		allocated_add(new.id);
	if (CONFIG(follow)) {
		list_add(newg, new.id);
		if (!has_no_identity(new.startpc))
			context_inherit(goid_of(creator), new.id);
	}
	if (!passes_filters(new.id))
		return;
	COUNT_TOTAL(created);
	if (!in_sample(new.id))
		return;

	struct goroutine parent;
	u64 stack = 0;

	if (read_goroutine(&parent, creator))
		stack = acting_stack(&parent, fp ? creator : 0, top, fp);
	else
		parent.id = 0;

	struct loupe_create *c = reserve(GoCreate, sizeof(*c), 1);

	if (!c)
		return;
	fill(&c->r, GoCreate, tid, new.id);
	c->r.words = sizeof(*c) / 8;
	c->r.arg = CONFIG(g_parent) != LOUPE_NO_FIELD ? new.parent : parent.id;
	c->r.flags = flags;
	c->r.stack = stack;
	c->gopc = new.gopc;
	c->startpc = new.startpc;
	commit(c);
}

COMMON void destroy(u32 tid, u64 gp)
{
	u64 goid = goid_of(gp);

	if (!goid) {
		unreadable(GoDestroy);
		return;
	}
	identity_ends(goid);

	int passes = passes_filters(goid);

	if (passes)
		COUNT_TOTAL(ended);

	struct loupe_record *r = passes && in_sample(goid) ? begin(GoDestroy, tid, goid) : 0;

	if (r) {
		fill_allocated(r, goid);
		commit(r);
	}
	forget_wait(goid);
	if (CONFIG(allocated))
		allocated_end(goid);
	if (CONFIG(skip_listed) || CONFIG(follow))
		list_remove(gp, goid);
}

INLINE int is_dead(u32 status)
{
	return status == CONFIG(st_dead) || status == CONFIG(st_dead_extra);
}

/*
 * func casgstatus(gp *g, oldval, newval uint32), where it is called from functions that make a goroutine runnable without calling the
 * other probed functions: wake-ups by the network poller
 */
PROBE(casgstatus)
{
	u32 tid = thread_if(any_listed());

	if (!tid)
		return 0;
	if ((u32)ARG(casgstatus, 1, 8) == CONFIG(st_waiting) && (u32)ARG(casgstatus, 2, 12) == CONFIG(st_runnable))
		unblock(tid, ARG(casgstatus, 0, 0), CURRENT_G(casgstatus), frame_pointer(ctx));
	return 0;
}

/* The same, where it is called from functions by which a C thread borrows a goroutine and returns it */
PROBE(borrow_casgstatus)
{
	u32 tid = target_thread();

	if (!tid)
		return 0;

	u64 gp = ARG(borrow_casgstatus, 0, 0);
	u32 from = ARG(borrow_casgstatus, 1, 8);
	u32 to = ARG(borrow_casgstatus, 2, 12);

	if (is_dead(from) && to == CONFIG(st_syscall)) {
		if (reported(GoCreate) && !CONFIG(follow))
			create(tid, gp, 0, 0, 0, LOUPE_NO_PARENT);
	} else if (from == CONFIG(st_syscall) && is_dead(to)) {
		if (reported(GoDestroy))
			destroy(tid, gp);
	}
	return 0;
}

/* The ID of the P of a thread plus one, from the thread's own g; 0 if it has no P. */
INLINE u32 proc_of(u64 g0)
{
	u64 m = g0 ? read_word(g0 + CONFIG(g_m)) : 0;
	u64 p = m ? read_word(m + CONFIG(m_p)) : 0;
	u32 id;

	return p && !read_memory(&id, sizeof(id), p + CONFIG(p_id)) ? id + 1 : 0;
}

/* func execute(gp *g, inheritTime bool) */
PROBE(execute)
{
	u32 tid = thread_if(may_be_listed(ARG(execute, 0, 0)));

	if (!tid || !CALLED(execute))
		return 0;

	u64 goid = goid_of(ARG(execute, 0, 0));

	if (!goid) {
		unreadable(GoStart);
		return 0;
	}
	if (!wanted(goid)) {
		thread_stops();
		return 0;
	}
	thread_runs(goid);

	struct loupe_record *r;
	u32 proc = CONFIG(procs) ? proc_of(CURRENT_G(execute)) : 0;

	r = begin(GoStart, tid, goid);
	if (!r)
		return 0;
	r->proc = proc > 0xffff ? 0 : proc;
	commit(r);
	return 0;
}

/* gp stops. preempted is the reason; checked says that the prologue of a function may have stopped it. */
COMMON void stop(u32 tid, u64 gp, int preempted, int checked)
{
	struct goroutine gr;

	if (!read_goroutine(&gr, gp)) {
		unreadable(GoStop);
		return;
	}
	if (!wanted(gr.id))
		return;
	thread_stops();

	u64 stack = stopped_stack(&gr, checked);
	struct loupe_record *r = begin(GoStop, tid, gr.id);

	if (!r)
		return;
	r->flags = preempted ? LOUPE_PREEMPTED : 0;
	r->stack = stack;
	commit(r);
}

/* A function of the scheduler that stops the goroutine of its first argument. */
#define STOP_PROBE(function, preempted, checked)                                               \
	PROBE(function)                                                                        \
	{                                                                                      \
		u32 tid = thread_if(may_be_listed(ARG(function, 0, 0)));                       \
                                                                                               \
		if (tid && CALLED(function))                                                   \
			stop(tid, ARG(function, 0, 0), preempted, checked);                    \
		return 0;                                                                      \
	}

/* func goschedImpl(gp *g, preempted bool) */
STOP_PROBE(goschedImpl, (u8)ARG(goschedImpl, 1, 8), (u8)ARG(goschedImpl, 1, 8))

/* func gosched_m(gp *g), goschedguarded_m, gopreempt_m: releases in which goschedImpl does not say why */
STOP_PROBE(gosched_m, 0, 0)
STOP_PROBE(goschedguarded_m, 0, 0)
STOP_PROBE(gopreempt_m, 1, 1)

/* func goyield_m(gp *g): yields to the next goroutine of its P */
STOP_PROBE(goyield_m, 1, 0)

/* func preemptPark(gp *g): stops for the garbage collector, which calls ready to make it runnable again */
PROBE(preemptPark)
{
	u32 tid = target_thread();

	if (!tid || !CALLED(preemptPark))
		return 0;

	struct goroutine gr;

	if (!read_goroutine(&gr, ARG(preemptPark, 0, 0))) {
		unreadable(GoBlock);
	} else if (wanted(gr.id)) {
		thread_stops();
		block(tid, gr.id, CONFIG(reason_preempted), CONFIG(trace_reason_preempted), 0, stopped_stack(&gr, 1));
	}
	return 0;
}

/* func runqput(pp *p, gp *g, next bool), where newproc calls it: the new goroutine is complete and not running yet */
PROBE(newproc_runqput)
{
	u32 tid = thread_if(any_listed());

	if (!tid || unfollowed(ARG(newproc_runqput, 1, 8)))
		return 0;

	u64 m = read_word(ARG(newproc_runqput, 0, 0) + CONFIG(p_m));

	create(tid, ARG(newproc_runqput, 1, 8), m ? read_word(m + CONFIG(m_curg)) : 0, 0, 0, 0);
	return 0;
}

/* func casgstatus(gp *g, oldval, newval uint32), where newproc1 calls it for a goroutine that is complete */
PROBE(newproc1_casgstatus)
{
	u32 tid = thread_if(any_listed());

	if (!tid)
		return 0;

	u32 from = ARG(newproc1_casgstatus, 1, 8);
	u32 to = ARG(newproc1_casgstatus, 2, 12);

	if (from == CONFIG(st_dead) && (to == CONFIG(st_runnable) || to == CONFIG(st_waiting)) && !unfollowed(ARG(newproc1_casgstatus, 0, 0)))
		create(tid, ARG(newproc1_casgstatus, 0, 0), user_g(CURRENT_G(newproc1_casgstatus)), 0, 0,
		       to == CONFIG(st_waiting) ? LOUPE_WAITING : 0);
	return 0;
}

/*
 * func newcoro(f func(*coro)) *coro, where it returns or stores the coro in the new g: releases in which newproc1 completes the
 * goroutine too late
 */
PROBE(newcoro)
{
	u32 tid = target_thread();

	if (!tid)
		return 0;

	u64 gp;

	if (SITE(newcoro).object_reg != LOUPE_NO_REG) {
		gp = numbered_register(ctx, SITE(newcoro).object_reg);
	} else {
		u64 coro = arg_register(ctx, 0);

		gp = coro ? read_word(coro + CONFIG(coro_gp)) : 0;
	}
	if (!unfollowed(gp))
		create(tid, gp, CURRENT_G(newcoro), CALLER(newcoro), frame_pointer(ctx), LOUPE_WAITING);
	return 0;
}

/* func goexit0(gp *g) */
PROBE(goexit0)
{
	u32 tid = thread_if(may_be_listed(ARG(goexit0, 0, 0)));

	if (tid && CALLED(goexit0))
		destroy(tid, ARG(goexit0, 0, 0));
	return 0;
}

/* A coroutine switches to another one, and exits if exits is set. One of them at least is sampled. */
COMMON void coroutine_switch(u32 tid, const struct goroutine *from, u64 to, int exits)
{
	u64 stack = stopped_stack(from, 0);

	if (CONFIG(min_block)) {
		if (exits && reported(GoDestroy) && in_sample(from->id))
			emit(GoDestroy, tid, from->id, 0, 0);
		else if (!exits && in_sample(from->id))
			block(tid, from->id, CONFIG(reason_coroutine), 0, 0, stack);
		if (in_sample(to) && end_wait(to))
			emit(GoUnblock, tid, to, from->id, stack);
		forget_wait(to);
		return;
	}

	struct loupe_record *r = begin(LOUPE_KIND_SWITCH, tid, from->id);

	if (!r)
		return;
	r->arg = to;
	r->reason = CONFIG(reason_coroutine);
	r->flags = exits ? LOUPE_SWITCH_EXIT : 0;
	r->value = allocated_packed(from->id);
	r->stack = stack;
	commit(r);
}

/* func coroswitch_m(gp *g): switches to the goroutine in its coro, and exits if coroexit is set */
PROBE(coroswitch_m)
{
	u32 tid = target_thread();

	if (!tid || !CALLED(coroswitch_m))
		return 0;

	u64 gp = ARG(coroswitch_m, 0, 0);
	u64 coro = read_word(gp + CONFIG(g_coroarg));
	u64 to = goid_of(coro ? read_word(coro + CONFIG(coro_gp)) : 0);
	struct goroutine from;
	u8 exits = 0;

	if (!read_goroutine(&from, gp) || !to || read_memory(&exits, 1, gp + CONFIG(g_coroexit))) {
		unreadable(LOUPE_KIND_SWITCH);
		return 0;
	}
	if (exits && passes_filters(from.id))
		COUNT_TOTAL(ended);
	if (!exits && !reported(GoBlock) && !reported(GoUnblock) && !reported(GoStart))
		return 0;
	/* If one of them is not sampled, the reader drops its events. */
	if (!wanted(from.id) && !wanted(to)) {
		if (exits && (CONFIG(skip_listed) || CONFIG(follow)))
			list_remove(from.g, from.id);
		forget_wait(to);
		return 0;
	}
	if (exits)
		identity_ends(from.id);
	coroutine_switch(tid, &from, to, exits);
	if (exits && (CONFIG(skip_listed) || CONFIG(follow)))
		list_remove(from.g, from.id);
	if (wanted(to))
		thread_runs(to);
	else
		thread_stops();
	return 0;
}
