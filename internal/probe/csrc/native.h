/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The platform of probes that run as machine code in the target: the counterpart of bpf.h.
 *
 * A stub (package inline) has taken a lane, saved the registers there and switched to its scratch stack. A fault here
 * would crash the target, so probes only read memory that is known to be mapped:
 *
 * - a running g, a g that is an argument of a probed function, or the current g of an M. The runtime never
 *   frees the memory of a g, and never unmaps other memory that it has allocated;
 * - the M of such a g, its P and the mcache of that, the M of a P that is an argument;
 * - the type of an object that the probed function is about to allocate;
 * - a coro or a channel that the probed function is about to use, or has just created;
 * - the stack of a goroutine with an ID, within the bounds in its g, read by the thread that runs or handles it. A
 *   thread's own g has no ID: its stack may belong to C code, and is not read;
 * - arguments on the stack, just above the stack pointer;
 * - the runtime variable with the heap size.
 *
 * A library's pointers are not known to be valid: see read_foreign in memory.h.
 */
#ifndef LOUPE_NATIVE_H
#define LOUPE_NATIVE_H

#include "lanes.h"

#define INLINE static inline __attribute__((always_inline, unused))
#define FUNCTION static __attribute__((noinline, unused))
#define COMMON FUNCTION

/* Registers as a stub saves them, in the kernel's order. Only those that probes read or C code may change. */
#if defined(__TARGET_ARCH_x86)
struct regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#define USER_END (1ull << 47)
#elif defined(__TARGET_ARCH_arm64)
struct regs {
	u64 regs[31], sp, pc, pstate;
};
#define USER_END (1ull << 48)
#endif

/* Constant to the compiler, which may therefore keep values in registers. It is after the code. */
extern const struct loupe_native_set settings __attribute__((visibility("hidden")));

/* Read by the generator; not part of the code. */
const u64 settings_size __attribute__((section(".sizes"), used)) = sizeof(struct loupe_native_set);

_Static_assert(sizeof(struct regs) <= sizeof(((struct loupe_lane *)0)->regs), "registers do not fit into a lane");
_Static_assert(sizeof(struct loupe_lane) + 3 * LOUPE_STACK_USE <= LOUPE_LANE_SPAN - LOUPE_LANE_TOP, "a lane's stack is too small");

/* The settings of all sets. */
#define native settings.base
#define CONFIG(field) native.config.field
#define SET(field) settings.set.field
#define HAS_WINDOW 0 /* reading memory is cheap */
#define REGISTER(ctx, name) (ctx)->name
#define PROBE(name) __attribute__((visibility("hidden"))) int probe_##name(struct regs *ctx)

#define SHARED() ((struct loupe_shared *)native.shared)
#define LOST() (lane()->lost)
#define SKIP() __atomic_load_n(&SHARED()->control.skip, __ATOMIC_RELAXED)

/* Only the owner of the lane writes it. */
#define COUNT_TOTAL(field) __atomic_store_n(&lane()->field, lane()->field + 1, __ATOMIC_RELAXED)
#define EPOCH() __atomic_load_n(&SHARED()->control.epoch, __ATOMIC_RELAXED)

/* The stub is after the stack check: a thread that reaches it has called the function. */
#define CALLED(probe) 1

/* Changes the third argument word of the function that is about to be called. The stub restores the registers that it has saved. */
#if defined(__TARGET_ARCH_x86)
#define SET_THIRD(value) (ctx->cx = (value))
#elif defined(__TARGET_ARCH_arm64)
#define SET_THIRD(value) (ctx->regs[2] = (value))
#endif

/* The same for the fifth one. */
#if defined(__TARGET_ARCH_x86)
#define SET_FIFTH(value) (ctx->si = (value))
#elif defined(__TARGET_ARCH_arm64)
#define SET_FIFTH(value) (ctx->regs[4] = (value))
#endif

/* The same for the three words of a slice that is the fifth argument word and those after it. */
#if defined(__TARGET_ARCH_x86)
#define SET_FIFTH_SLICE(data, length, capacity) (ctx->si = (data), ctx->r8 = (length), ctx->r9 = (capacity))
#elif defined(__TARGET_ARCH_arm64)
#define SET_FIFTH_SLICE(data, length, capacity) (ctx->regs[4] = (data), ctx->regs[5] = (length), ctx->regs[6] = (capacity))
#endif

/* The stub knows the current g at all places. */
#define CURRENT_G(probe) (lane()->g)
#define CURRENT_G_OR_TLS(probe) (lane()->g)

/* A thread of the target whose ID is unknown. */
#define NO_THREAD 0xffffffffu
#define THREAD_ID(tid) ((tid) == NO_THREAD ? 0 : (tid))

INLINE struct loupe_lane *lane(void)
{
	u64 sp;

#if defined(__TARGET_ARCH_x86)
	asm("mov %%rsp, %0" : "=r"(sp));
#elif defined(__TARGET_ARCH_arm64)
	asm("mov %0, sp" : "=r"(sp));
#endif
	return (struct loupe_lane *)(sp & ~(u64)(LOUPE_LANE_SPAN - 1));
}

#include "memory.h"

/*
 * The time of an event of a goroutine: ticks of the processor's counter, or the number of the hit. The stub reads it when it
 * takes the lane, on which the reader relies, and not before the earlier times of the lane. The processor may have read it
 * a little before it saw the effects of another thread. To keep the times of cause and effect in order, it is after the
 * goroutine's last time on any thread. Goroutines that share an entry may get a time that is a little late, which is
 * harmless. If two threads write it at once, it is one of two current times.
 */
INLINE u64 event_time(u64 goid)
{
	struct loupe_lane *l = lane();
	/* Goroutines with similar IDs are in different cache lines. */
	u64 *entry = (u64 *)native.times + ((goid << 3 | (goid >> 12 & 7)) & (LOUPE_TIMES - 1));
	u64 last = __atomic_load_n(entry, __ATOMIC_RELAXED), time = l->stamp;

	if (time <= last)
		*(volatile u64 *)&l->stamp = time = last + 1;
	__atomic_store_n(entry, time, __ATOMIC_RELAXED);
	return time;
}

/* A word of a struct at a plausible address. */
INLINE u64 field(u64 base, u32 offset) { return *(volatile u64 *)(base + offset); }

/* The thread's ID, as stored by the runtime at its start. The stub has already found its M. */
INLINE u32 target_thread(void)
{
	if (CONFIG(m_procid) == LOUPE_NO_FIELD)
		return NO_THREAD;

	u32 id = field(field(lane()->g, CONFIG(g_m)), CONFIG(m_procid));

	return id ? id : NO_THREAD;
}

/* The address for a record in a ring; 0 if it does not fit. tail is the position of the reader. */
INLINE void *ring_room(struct loupe_ring *q, const u64 *tail, u64 size)
{
	u64 at = q->head & q->mask, rest = q->mask + 1 - at;

	if (__builtin_expect(rest < size, 0)) {
		if (q->head + rest + size - __atomic_load_n(tail, __ATOMIC_ACQUIRE) > q->mask + 1)
			return 0;
		/* The reader skips the rest when it finds the wrap. */
		if (rest >= sizeof(struct loupe_record))
			((struct loupe_record *)(q->addr + at))->kind = 0;
		__atomic_store_n(&q->head, q->head + rest, __ATOMIC_RELEASE);
		return (void *)q->addr;
	}
	if (q->head + size - __atomic_load_n(tail, __ATOMIC_ACQUIRE) > q->mask + 1)
		return 0;
	return (void *)(q->addr + at);
}

/* Reserves space for a record of an event, or of a stack if it is not produced. */
INLINE void *reserve(u32 kind, u64 size, int produced)
{
	struct loupe_lane *l = lane();
	struct loupe_count *c = &l->counts[kind];
	void *room;

	if (produced) {
		c->produced++;
		room = ring_room(&l->events, &l->events_tail, size);
	} else {
		room = ring_room(&l->stacks, &l->stacks_tail, size);
	}
	if (__builtin_expect(!room, 0)) {
		c->no_room++;
		l->lost += produced;
		return 0;
	}
	if (produced)
		*(volatile u64 *)&l->under_way = l->events.head << 8 | kind;
	return room;
}

/* Prefetches a cache line for writing. It never faults. */
INLINE void fetch_for_writing(u64 addr)
{
#if defined(__TARGET_ARCH_x86)
	asm volatile("prefetchw %0" ::"m"(*(const char *)addr));
#elif defined(__TARGET_ARCH_arm64)
	asm volatile("prfm pstl1keep, %0" ::"Q"(*(const char *)addr));
#endif
}

/*
 * The address of the records after the next one. A ring is too large for the caches, and the next locked instruction would
 * have to wait until the record is in the cache.
 */
enum { FETCH_AHEAD = 128 };

INLINE void commit(void *record)
{
	struct loupe_lane *l = lane();
	const struct loupe_record *r = record;
	struct loupe_ring *q = r->kind == LOUPE_KIND_STACK ? &l->stacks : &l->events;

	__atomic_store_n(&q->head, q->head + r->words * 8ull, __ATOMIC_RELEASE);
	fetch_for_writing(q->addr + ((q->head + FETCH_AHEAD) & q->mask));
}

INLINE void unreadable(u32 kind)
{
	struct loupe_lane *l = lane();

	l->counts[kind].produced++;
	l->counts[kind].unreadable++;
	l->lost++;
}

/*
 * Stacks that were sent. Threads write the table concurrently without a lock: at worst an entry is lost and its stack is
 * sent again. A stack is never in the table before it was sent.
 */
INLINE u64 *known_bucket(u64 id)
{
	return (u64 *)native.known + ((id >> 20) & native.known_mask & ~(u64)(LOUPE_BUCKET - 1));
}

INLINE int stack_known(u64 id)
{
	u64 *bucket = known_bucket(id);

	for (u32 i = 0; i < LOUPE_BUCKET; i++)
		if (__atomic_load_n(&bucket[i], __ATOMIC_ACQUIRE) == id)
			return 1;
	return 0;
}

INLINE void stack_sent(u64 id)
{
	u64 *bucket = known_bucket(id);
	u32 at = (id >> 1) % LOUPE_BUCKET; /* the lowest bit is always set */

	for (u32 i = 0; i < LOUPE_BUCKET; i++)
		if (!__atomic_load_n(&bucket[i], __ATOMIC_RELAXED)) {
			at = i;
			break;
		}
	__atomic_store_n(&bucket[at], id, __ATOMIC_RELEASE);
}

/* The position of a key in a table, modulo the number of cells. */
INLINE u64 table_first(u64 key) { return (key * 0x9e3779b97f4a7c15ull) >> 32; }

/* A set of nonzero numbers: the entry of a number, or a free entry that was set to it; 0 if there is neither. */
FUNCTION u64 *set_find(u64 table, u64 mask, u64 key, int add)
{
	u64 first = table_first(key);

	for (u32 i = 0; i < LOUPE_WINDOW_ENTRIES; i++) {
		u64 *entry = (u64 *)table + ((first + i) & mask);

		if (__atomic_load_n(entry, __ATOMIC_RELAXED) == key)
			return entry;
	}
	for (u32 i = 0; add && i < LOUPE_WINDOW_ENTRIES; i++) {
		u64 *entry = (u64 *)table + ((first + i) & mask), free = 0;

		if (__atomic_compare_exchange_n(entry, &free, key, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return entry;
	}
	return 0;
}

/* The entry of a goroutine, or a free entry that was claimed for it; 0 if there is neither. Only the goroutine itself writes the sums. */
FUNCTION struct loupe_allocated_entry *allocated_entry(u64 goid, int add)
{
	struct loupe_allocated_entry *table = (struct loupe_allocated_entry *)native.allocated;
	u64 first = table_first(goid);

	for (u32 i = 0; table && i < LOUPE_WINDOW_ENTRIES; i++) {
		struct loupe_allocated_entry *e = &table[(first + i) & native.allocated_mask];

		if (__atomic_load_n(&e->goid, __ATOMIC_RELAXED) == goid)
			return e;
	}
	for (u32 i = 0; table && add && i < LOUPE_WINDOW_ENTRIES; i++) {
		struct loupe_allocated_entry *e = &table[(first + i) & native.allocated_mask];
		u64 free = 0;

		if (__atomic_compare_exchange_n(&e->goid, &free, goid, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
			e->sums.bytes = e->sums.objects = 0;
			return e;
		}
	}
	return 0;
}

INLINE struct loupe_allocated *allocated_find(u64 goid)
{
	struct loupe_allocated_entry *e = allocated_entry(goid, 0);

	return e ? &e->sums : 0;
}

/* Begins to count, unless that has begun. */
INLINE void allocated_add(u64 goid)
{
	if (!allocated_entry(goid, 1))
		__atomic_fetch_add(&SHARED()->control.unlisted, 1, __ATOMIC_RELAXED);
}

INLINE void allocated_end(u64 goid)
{
	struct loupe_allocated_entry *e = allocated_entry(goid, 0);

	if (e)
		__atomic_store_n(&e->goid, 0, __ATOMIC_RELEASE);
}

#define HAS_CONTEXTS 1

/* The low bits of the key of a goroutine's entry in the table of contexts. Other keys are addresses, which are multiples of 8. */
enum {
	CONTEXT_SCOPE = 1, /* the request that the goroutine serves, or for which it was created */
	CONTEXT_CALL = 2,  /* the request that it sends */
	CONTEXT_WRITE = 3, /* the request that it writes to a connection */
	CONTEXT_PASSED = 4, /* added to an address: that of a context.Context, by which a program passes a request on */

	CONTEXT_OLD = 38, /* after 2^38 ticks, a minute or more, a request has been written */
};

INLINE u64 context_key(u64 goid, u64 what) { return goid << 3 | what; }

/* The entry of a key, or a free entry that was claimed for it; 0 if there is neither. */
FUNCTION struct loupe_context *context_find(u64 key, int add)
{
	struct loupe_context *table = (struct loupe_context *)native.contexts;
	u64 first = table_first(key);

	for (u32 i = 0; table && i < LOUPE_WINDOW_ENTRIES; i++) {
		struct loupe_context *c = &table[(first + i) & native.contexts_mask];

		if (__atomic_load_n(&c->key, __ATOMIC_ACQUIRE) == key)
			return c;
	}
	for (u32 i = 0; table && add && i < LOUPE_WINDOW_ENTRIES; i++) {
		struct loupe_context *c = &table[(first + i) & native.contexts_mask];
		u64 free = 0;

		if (__atomic_compare_exchange_n(&c->key, &free, key, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
			c->about = c->carried = 0;
			return c;
		}
	}
	for (u32 i = 0; table && add && i < LOUPE_WINDOW_ENTRIES; i++) {
		struct loupe_context *c = &table[(first + i) & native.contexts_mask];
		u64 old = __atomic_load_n(&c->key, __ATOMIC_RELAXED);

		/* A request that failed before it was written leaves its entry. */
		if (!(old & 7) && lane()->stamp > c->about && (lane()->stamp - c->about) >> CONTEXT_OLD &&
		    __atomic_compare_exchange_n(&c->key, &old, key, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
			c->about = c->carried = 0;
			return c;
		}
	}
	if (table && add)
		__atomic_fetch_add(&SHARED()->contexts_full, 1, __ATOMIC_RELAXED);
	return 0;
}

/* Removes an entry. to receives its content; it may be 0. Returns whether there was one. */
FUNCTION int context_take(u64 key, struct loupe_context *to)
{
	struct loupe_context *c = context_find(key, 0);

	if (!c)
		return 0;
	if (to)
		*to = *c;
	__atomic_store_n(&c->key, 0, __ATOMIC_RELEASE);
	return 1;
}

/* Removes the entry of a request that a goroutine sends, and the entries that refer to it. */
INLINE void context_end_call(u64 goid)
{
	struct loupe_context call;

	if (native.contexts && context_take(context_key(goid, CONTEXT_CALL), &call) && call.about)
		context_take(call.about, 0);
}

INLINE void context_forget(u64 goid)
{
	struct loupe_context *scope;

	if (!native.contexts)
		return;
	scope = context_find(context_key(goid, CONTEXT_SCOPE), 0);
	if (scope && scope->about)
		context_take(scope->about, 0);
	context_take(context_key(goid, CONTEXT_SCOPE), 0);
	context_end_call(goid);
}

/* A goroutine creates another, which works for the same request. */
INLINE void context_inherit(u64 from, u64 to)
{
	struct loupe_context *c, *own;

	if (!native.contexts)
		return;
	c = context_find(context_key(from, CONTEXT_SCOPE), 0);
	if (!c)
		c = context_find(context_key(from, CONTEXT_CALL), 0);
	own = c ? context_find(context_key(to, CONTEXT_SCOPE), 1) : 0;
	if (!own)
		return;
	own->trace[0] = c->trace[0];
	own->trace[1] = c->trace[1];
	own->span = c->span;
	own->flags = c->flags & LOUPE_SAMPLED;
	own->carried = c->carried;
}

/* Only eBPF programs can fill the map of a profiler: see identity.h. */
INLINE void thread_runs(u64 goid) {}
INLINE void thread_stops(void) {}
INLINE void identity_ends(u64 goid) {}
INLINE int has_no_identity(u64 startpc) { return 0; }

/* The number of listed goroutines whose IDs have the same remainder: struct loupe_filter. */
INLINE u32 *listed_like(u64 goid) { return &SHARED()->filter.listed[goid % LOUPE_FILTER]; }

INLINE int is_listed(u64 goid)
{
	if (goid < LOUPE_SMALL_IDS)
		return __atomic_load_n(&SHARED()->control.small[goid], __ATOMIC_RELAXED);
	return __atomic_load_n(listed_like(goid), __ATOMIC_RELAXED) && set_find(native.listed, native.listed_mask, goid, 0) != 0;
}

/* Machine code reads memory so quickly that it has no use for these. */
INLINE int may_be_listed(u64 g) { return 1; }
INLINE int any_listed(void) { return 1; }
INLINE u32 thread_if(int concerns) { return target_thread(); }

INLINE void list_add(u64 g, u64 goid)
{
	struct loupe_control *c = &SHARED()->control;

	if (goid < LOUPE_SMALL_IDS) {
		__atomic_store_n(&c->small[goid], 1, __ATOMIC_RELAXED);
		return;
	}
	if (is_listed(goid))
		return;
	__atomic_fetch_add(listed_like(goid), 1, __ATOMIC_RELAXED);
	if (set_find(native.listed, native.listed_mask, goid, 1))
		return;
	__atomic_fetch_sub(listed_like(goid), 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&c->unlisted, 1, __ATOMIC_RELAXED);
}

INLINE void list_remove(u64 g, u64 goid)
{
	if (goid < LOUPE_SMALL_IDS) {
		if (!__atomic_load_n(&SHARED()->control.small[goid], __ATOMIC_RELAXED))
			return;
		__atomic_store_n(&SHARED()->control.small[goid], 0, __ATOMIC_RELAXED);
		context_forget(goid);
		return;
	}

	u64 *entry = __atomic_load_n(listed_like(goid), __ATOMIC_RELAXED) ? set_find(native.listed, native.listed_mask, goid, 0) : 0, old = goid;

	if (!entry || !__atomic_compare_exchange_n(entry, &old, 0, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	__atomic_fetch_sub(listed_like(goid), 1, __ATOMIC_RELAXED);
	context_forget(goid);
}

INLINE int is_system_start(u64 pc)
{
	return pc && set_find(native.starts, native.starts_mask, pc, 0) != 0;
}

INLINE u64 *lane_table(const struct loupe_table *t) { return (u64 *)(lane()->tables + t->offset); }

/* Looks for a key in the cells where it may be: see table_values. */
FUNCTION u64 *table_find(const struct loupe_table *t, u64 key, int *added)
{
	u64 *table = lane_table(t), first = table_first(key);

	*added = 0;
	for (u32 i = 0; i < LOUPE_WINDOW_ENTRIES && i <= t->mask; i++) {
		u64 *cell = table + 1 + ((first + i) & t->mask) * (2 + t->values), count = cell[1];

		if (!count) {
			cell[0] = key;
			*added = 1;
		} else if (cell[0] != key) {
			continue;
		}
		__atomic_store_n(&cell[1], count + 1, __ATOMIC_RELEASE);
		return cell + 2;
	}
	__atomic_store_n(table, *table + 1, __ATOMIC_RELAXED);
	return 0;
}

/*
 * The values of a key in one of the tables of this lane, which no other hit uses at the same time. The key is added if the table
 * does not have it; 0 if there is no room, which is counted. The reader sees a key before the number of times it was counted.
 */
INLINE u64 *table_values(const struct loupe_table *t, u64 values, u64 key, int *added)
{
	u64 *cell = lane_table(t) + 1 + (table_first(key) & t->mask) * (2 + values), count = cell[1];

	if (__builtin_expect(cell[0] != key || !count, 0))
		return table_find(t, key, added);
	*added = 0;
	__atomic_store_n(&cell[1], count + 1, __ATOMIC_RELEASE);
	return cell + 2;
}

#define TABLE(name, count)                                                                     \
	INLINE u64 *find_##name(u64 key, int *added)                                           \
	{                                                                                      \
		return table_values(&SET(tables[TABLE_##name]), count, key, added);            \
	}

/* Only the owner of the lane writes its tables. */
#define ADD(values, n, amount) __atomic_store_n(&(values)[n], (values)[n] + (amount), __ATOMIC_RELAXED)
#define KEEP(values, n, value) __atomic_store_n(&(values)[n], value, __ATOMIC_RELAXED)

/*
 * The entry of a goroutine's wait, or, if requested, a free entry claimed for it; 0 if there is none. A goroutine
 * begins a wait before another ends it, so two threads never look for the same goroutine at once.
 */
FUNCTION struct loupe_wait_entry *wait_find(u64 goid, int add)
{
	struct loupe_wait_entry *table = (struct loupe_wait_entry *)native.waits;

	for (u32 i = 0; native.waits && i < LOUPE_WINDOW_ENTRIES; i++) {
		struct loupe_wait_entry *e = &table[(goid + i) & native.waits_mask];

		if (__atomic_load_n(&e->goid, __ATOMIC_RELAXED) == goid)
			return e;
	}
	for (u32 i = 0; native.waits && add && i < LOUPE_WINDOW_ENTRIES; i++) {
		struct loupe_wait_entry *e = &table[(goid + i) & native.waits_mask];
		u64 free = 0;

		if (__atomic_compare_exchange_n(&e->goid, &free, goid, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return e;
	}
	return 0;
}

/* Returns whether the wait was stored. */
INLINE int wait_begin(u64 goid, const struct loupe_wait *w)
{
	struct loupe_wait_entry *e = wait_find(goid, 1);

	if (e)
		e->wait = *w;
	return e != 0;
}

/* Returns whether there was a wait. */
INLINE int wait_end(u64 goid, struct loupe_wait *w)
{
	struct loupe_wait_entry *e = wait_find(goid, 0);

	if (!e)
		return 0;
	*w = e->wait;
	__atomic_store_n(&e->goid, 0, __ATOMIC_RELEASE);
	return 1;
}

#endif
