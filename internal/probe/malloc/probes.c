//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Allocations on the Go heap (runtime/malloc.go), counted by goroutine and by place without an event for each.
 */
enum loupe_probe {
	PROBE_mallocgc,
	PROBE_COUNT,
};

enum loupe_setting {
	SETTING_by, /* enum by */

	/* Code of functions that call another probed function for the same allocation; size 0: none. */
	SETTING_outer, SETTING_outer_size,
	SETTING_outer2, SETTING_outer2_size,

	SETTING_header_above, /* larger small objects with pointers have a header */
	SETTING_small_max,    /* larger objects have pages of their own */
	SETTING_type_ptrdata, SETTING_p_mcache, SETTING_mcache_tiny, SETTING_mcache_tinyoffset, /* offsets of fields */

	/*
	 * The sizes of size classes, in bytes of one array: for sizes up to FINE the class size in units of 8 by the size in units
	 * of 8, then for larger ones the class size in units of 128, less one, by the size above FINE in units of 128.
	 */
	SETTING_rounded,
	SETTING_rounded_end = SETTING_rounded + 47,
	SETTING_COUNT,
};

enum loupe_table_id {
	TABLE_goroutines,
	TABLE_creators,
	TABLE_places,
	TABLE_callers,
	TABLE_rest,
	TABLE_COUNT,
};

#define LOUPE_PAYLOAD 64
#define LOUPE_TEXT 8
#define LOUPE_STACKS 1
#include "set.h"

enum by {
	BY_GOROUTINE = 1,
	BY_PLACE = 2,
	BY_REQUEST = 4, /* only: goroutines of requests, in the sums that records have (loupe_config.allocated) */
};

enum {
	FINE = 1024,
	HEADER = 8,        /* bytes */
	TINY = 16,         /* smaller objects without pointers share blocks of this size */
	PAGE = 8192,       /* of the heap */
	ROUNDED_MAX = 384, /* bytes of the array */
};

/* The first values of each table. */
enum {
	BYTES,     /* of size classes and pages, as MemStats.TotalAlloc counts them */
	REQUESTED, /* bytes that were asked for */
	TINIES,    /* objects in blocks of the tiny allocator */
	SUMS,
};

enum { CALLERS = 6 }; /* the innermost return addresses of a place that has no room in the table of places */

TABLE(goroutines, SUMS + 2) /* by ID; values: go statement, start function */
TABLE(creators, SUMS)       /* by go statement, of goroutines that have no room in the first table */
TABLE(places, SUMS + 3)     /* by the hash of stack, type and size class; values: whether its note was sent, type, size of the class (0: tiny) */
TABLE(callers, SUMS + 2 + CALLERS) /* of such places, by the hash of the values: type, size of the class, return addresses */
TABLE(rest, SUMS)           /* allocations that have no room in the other tables */

/* Keys of the table of the rest. */
enum rest {
	REST_GOROUTINES = 1,
	REST_PLACES = 2,
};

struct allocation {
	u64 size, bytes, type, tiny;
};

INLINE u64 rounded_at(u64 i)
{
	OPAQUE(i);
	if (i >= ROUNDED_MAX)
		return 0;
	return ((const volatile u8 *)&SETTING(rounded))[i];
}

/* The size of the class of a size. */
INLINE u64 rounded(u64 size)
{
	if (size > SETTING(small_max))
		return (size + PAGE - 1) & ~(u64)(PAGE - 1);
	if (size <= FINE)
		return rounded_at((size + 7) / 8) * 8;
	return (rounded_at(FINE / 8 + 1 + (size - FINE + 127) / 128) + 1) * 128;
}

/* Whether a tiny object fits into the current block of the P that g runs on. */
INLINE int fits(u64 g, u64 size)
{
	u64 m = g ? read_word(g + CONFIG(g_m)) : 0;
	u64 p = m ? read_word(m + CONFIG(m_p)) : 0;
	u64 cache = p ? read_word(p + SETTING(p_mcache)) : 0;
	u64 offset, align = size & -size;

	if (!cache || !read_word(cache + SETTING(mcache_tiny)))
		return 0;
	offset = read_word(cache + SETTING(mcache_tinyoffset));
	if (align > 8)
		align = 8;
	return ((offset + align - 1) & -align) + size <= TINY;
}

/* What the runtime does for an allocation of a size other than 0. */
INLINE void measure(struct allocation *a, u64 g)
{
	int pointers = a->type && read_word(a->type + SETTING(type_ptrdata));

	a->tiny = !pointers && a->size < TINY;
	if (a->tiny)
		a->bytes = fits(g, a->size) ? 0 : TINY;
	else if (pointers && a->size > SETTING(header_above) && a->size <= SETTING(small_max))
		a->bytes = rounded(a->size + HEADER);
	else
		a->bytes = rounded(a->size);
}

INLINE void sum(u64 *values, const struct allocation *a)
{
	ADD(values, BYTES, a->bytes);
	ADD(values, REQUESTED, a->size);
	ADD(values, TINIES, a->tiny);
}

INLINE void count_rest(enum rest key, const struct allocation *a)
{
	int added;
	u64 *values = find_rest(key, &added);

	if (values)
		sum(values, a);
}

INLINE void count_goroutine(const struct goroutine *gr, const struct allocation *a)
{
	int added;
	u64 *values = find_goroutines(gr->id, &added);

	if (values) {
		sum(values, a);
		if (added && gr->id) {
			KEEP(values, SUMS, read_word(gr->g + CONFIG(g_gopc)));
			KEEP(values, SUMS + 1, read_word(gr->g + CONFIG(g_startpc)));
		}
		return;
	}
	values = gr->id ? find_creators(read_word(gr->g + CONFIG(g_gopc)), &added) : 0;
	if (values)
		sum(values, a);
	else
		count_rest(REST_GOROUTINES, a);
}

/* Sends the stack of a place. Returns whether the reader will know it. */
FUNCTION int send_place(u32 tid, const struct goroutine *gr, u64 key, u64 top, u64 fp)
{
	struct note n;
	u64 stack;

	if (!gr)
		return 0;
	stack = stack_of(gr, 0, top, fp);
	if (!stack || !stack_known(stack) || !note_begin(&n, 0, tid, gr->id, stack))
		return 0;
	note_word(&n, key);
	note_end(&n);
	return 1;
}

/* The innermost return addresses of a stack, as those of hash_slowly; the others are 0. */
INLINE void read_callers(u64 pcs[CALLERS], u64 lo, u64 hi, u64 top, u64 fp)
{
	pcs[0] = caller_of(lo, hi, top);
#pragma unroll
	for (u32 i = 1; i < CALLERS; i++) {
		struct frame f = {};

		pcs[i] = 0;
		if (fp - lo > hi - lo || read_memory(&f, sizeof(f), fp))
			fp = 0;
		else
			pcs[i] = f.pc;
		fp = f.pc && f.fp > fp ? f.fp : 0;
	}
}

/* Counts an allocation at a place that has no room. */
FUNCTION int count_caller(const struct goroutine *gr, u64 top, u64 fp, const struct allocation *a)
{
	u64 class, key, *values, pcs[CALLERS] = {};
	int added;

	if (!gr || !a)
		return 0;
	class = a->tiny ? 0 : a->bytes;
	key = fold(a->type, class);
	if (gr->id && gr->stack_hi >= gr->stack_lo + sizeof(struct frame))
		read_callers(pcs, gr->stack_lo, gr->stack_hi - sizeof(struct frame), top, fp);
#pragma unroll
	for (u32 i = 0; i < CALLERS; i++)
		key = fold(key, pcs[i]);
	values = find_callers(mix(key, 0), &added);
	if (!values) {
		count_rest(REST_PLACES, a);
		return 0;
	}
	sum(values, a);
	if (added) {
		KEEP(values, SUMS, a->type);
		KEEP(values, SUMS + 1, class);
#pragma unroll
		for (u32 i = 0; i < CALLERS; i++)
			KEEP(values, SUMS + 2 + i, pcs[i]);
	}
	return 0;
}

/* Counts an allocation at a place. Returns 0 if the place has no room. */
INLINE int count_place(u32 tid, const struct goroutine *gr, u64 top, u64 fp, const struct allocation *a)
{
	u64 class = a->tiny ? 0 : a->bytes, stack = gr->id ? stack_id(gr, 0, top, fp) : 0, key = mix(fold(stack, a->type), class);
	int added;
	u64 *values = find_places(key, &added);

	if (!values)
		return 0;
	sum(values, a);
	if (added) {
		KEEP(values, SUMS + 1, a->type);
		KEEP(values, SUMS + 2, class);
	}
	if (stack && !values[SUMS] && send_place(tid, gr, key, top, fp))
		KEEP(values, SUMS, 1);
	return 1;
}

/* Whether the caller of the probed function counts the allocation. */
INLINE int is_inner(struct regs *ctx)
{
	u64 caller = CALLER(mallocgc);

	if (!SETTING(outer_size))
		return 0;
#if defined(__TARGET_ARCH_x86)
	caller = read_word(caller);
#elif defined(__TARGET_ARCH_arm64)
	if (SITE(mallocgc).sp_moved)
		caller = read_word(caller);
#endif
	return caller - SETTING(outer) < SETTING(outer_size) || caller - SETTING(outer2) < SETTING(outer2_size);
}

/* Counts an allocation of a goroutine of a request, whose g may be a thread's own. */
INLINE void count_request(u64 g, struct allocation *a)
{
	struct loupe_allocated *sums;
	u64 goid = goid_of(g);

	if (!goid)
		goid = goid_of(user_g(g));
	sums = goid && (!CONFIG(follow) || is_listed(goid)) ? allocated_find(goid) : 0; /* most goroutines are not listed, which is known quickly */
	if (!sums)
		return;
	measure(a, g);
	sums->bytes += a->bytes;
	sums->objects++;
}

/* func mallocgc(size uintptr, typ *_type, needzero bool) unsafe.Pointer, and the functions like it for one size class */
PROBE(mallocgc)
{
	u32 tid = target_thread();
	struct allocation a = {};
	struct goroutine gr = {};
	u64 g, top, fp;

	if (!tid || !CALLED(mallocgc))
		return 0;
	a.size = ARG(mallocgc, 0, 0);
	a.type = ARG(mallocgc, 1, 8);
	if (!a.size || is_inner(ctx))
		return 0;
	g = CURRENT_G(mallocgc);
	if (SETTING(by) == BY_REQUEST) {
		count_request(g, &a);
		return 0;
	}
	measure(&a, g);

	top = CALLER(mallocgc);
	fp = frame_pointer(ctx);
	allocator(&gr, g, &top, &fp);
	if (SETTING(by) & BY_GOROUTINE)
		count_goroutine(&gr, &a);
	if (SETTING(by) & BY_PLACE && !count_place(tid, &gr, top, fp, &a))
		count_caller(&gr, top, fp, &a);
	return 0;
}
