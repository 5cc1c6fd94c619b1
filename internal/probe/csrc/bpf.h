/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The platform of probes that run as eBPF programs. native.h is its counterpart for machine code.
 */
#ifndef LOUPE_BPF_H
#define LOUPE_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "lanes.h"

#define INLINE static __attribute__((always_inline, unused))

/* Registers as the kernel passes them to a uprobe (asm/ptrace.h, part of the kernel's stable interface). */
#if defined(__TARGET_ARCH_x86)
struct regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#elif defined(__TARGET_ARCH_arm64)
struct regs {
	u64 regs[31], sp, pc, pstate;
};
#endif

/* The verifier requires a constant offset for every register access; the compiler might compute the offset first. */
#define REGISTER(ctx, name)                                                              \
	({                                                                               \
		u64 value;                                                               \
		asm volatile("%0 = *(u64 *)(%1 + %2)"                                    \
			     : "=r"(value)                                               \
			     : "r"(ctx), "i"(__builtin_offsetof(struct regs, name)));    \
		value;                                                                   \
	})

const volatile struct loupe_config config = {};
const volatile struct loupe_set set = {};
struct loupe_control control SEC(".data.control") = {};

/* The Go declarations are generated only for types that are referenced. */
const struct loupe_filter *type_filter __attribute__((unused));
const struct loupe_create *type_create __attribute__((unused));
const struct loupe_stack *type_stack __attribute__((unused));
const struct loupe_table *type_table __attribute__((unused));
const struct loupe_text *type_text __attribute__((unused));
const enum loupe_mark *type_mark __attribute__((unused));
const enum loupe_probe *type_probe __attribute__((unused));
const enum loupe_flag *type_flag __attribute__((unused));
const enum loupe_limit *type_limit __attribute__((unused));
const enum loupe_lane_limit *type_lane_limit __attribute__((unused));
const struct loupe_ring *type_ring __attribute__((unused));
const struct loupe_lane *type_lane __attribute__((unused));
const struct loupe_shared *type_shared __attribute__((unused));
const struct loupe_native *type_native __attribute__((unused));
const struct loupe_wait_entry *type_wait_entry __attribute__((unused));
const struct loupe_context *type_context __attribute__((unused));
const struct loupe_loans *type_loans __attribute__((unused));
const struct loupe_carried *type_carried __attribute__((unused));
const enum loupe_loan_limit *type_loan_limit __attribute__((unused));
const struct loupe_allocated_entry *type_allocated_entry __attribute__((unused));
const struct loupe_totals *type_totals __attribute__((unused));

#define CONFIG(field) config.field
#define SET(field) set.field
#define HAS_WINDOW 1

enum { EEXIST = 17 };

/* Makes the verifier forget that a value is a copy of another, so that it can prune states that differ only in that. */
#define FORGET(value) asm volatile("%0 ^= 0" : "+r"(value))

/* 1 if a value is not 0, else 0. It is computed without a branch, which would double the verifier's states. */
#define IS_SET(value)                                                                    \
	({                                                                               \
		u64 minus = value;                                                       \
		asm volatile("%0 = -%0" : "+r"(minus));                                  \
		(minus | value) >> 63;                                                   \
	})
#define THREAD_ID(tid) (tid)
#define LOST() control.lost
#define SKIP() control.skip
#define EPOCH() control.epoch
#define FUNCTION __attribute__((noinline, unused))
#define COMMON INLINE /* code that several probes share: machine code contains it once, eBPF once per probe */
#define PROBE(name) SEC("uprobe/" #name) int probe_##name(struct regs *ctx)

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOUPE_KIND_LIMIT);
	__type(key, u32);
	__type(value, struct loupe_count);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct loupe_totals);
} totals SEC(".maps");

/* Stacks that have been sent. If an entry is evicted, the stack is sent again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 16);
	__type(key, u64);
	__type(value, u8);
} stacks SEC(".maps");

/* The same for the most recent stacks, found without hashing. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << 14);
	__type(key, u32);
	__type(value, u64);
} recent_stacks SEC(".maps");

/* Goroutines with large IDs to report or to skip. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 12);
	__type(key, u64);
	__type(value, u8);
} listed SEC(".maps");

struct loupe_filter filter SEC(".data.filter") = {};

/*
 * How many goroutines of requests are listed: all of them, and those whose g has the same place. Most goroutines belong to no request: a
 * probe knows that by the address of the g, and need not read its ID from the target, which takes longer than the rest of the probe. Those
 * that the reader has removed from the list still count, so a number can be too large, which costs time, but never too small.
 */
enum { LOUPE_PLACES = 1 << 14 };

struct {
	u32 at[LOUPE_PLACES];
	u64 all;
} listed_gs SEC(".data.gs") = {};

/* What listed goroutines have allocated, if that is counted. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct loupe_allocated);
} allocated SEC(".maps");

/* Start functions of the runtime's own goroutines. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, u8);
} system_starts SEC(".maps");

/* Current waits, by goroutine, if only long waits are reported. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct loupe_wait);
} waits SEC(".maps");

/*
 * A part of a goroutine's stack. A read of memory is expensive, but a thousand bytes cost hardly more than eight. So a stack is
 * read in large parts. They do not fit on the stack of an eBPF program, so each CPU has one window.
 */
struct loupe_window {
	u64 entered, left; /* how many times it was acquired and released */
	u64 scratch;
	u8 bytes[LOUPE_WINDOW];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct loupe_window);
} windows SEC(".maps");

INLINE int read_memory(void *dst, u32 size, u64 addr)
{
	return bpf_probe_read_user(dst, size, (const void *)addr);
}

/* Reads memory that need not be valid. Returns nonzero if it cannot be read. */
INLINE int read_foreign(void *dst, u32 size, u64 addr)
{
	return bpf_probe_read_user(dst, size, (const void *)addr);
}

INLINE struct loupe_window *window_of_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&windows, &zero);
}

/*
 * Acquires the window of this CPU. Returns 0 if this probe has preempted one that holds it. A probe that preempts this one
 * increments entered. No probe held the window when entered was read, so none is missed.
 */
INLINE struct loupe_window *window_open(u64 *ticket)
{
	struct loupe_window *w = window_of_cpu();

	if (!w)
		return 0;

	u64 left = *(volatile u64 *)&w->left;

	*ticket = *(volatile u64 *)&w->entered;
	if (left != *ticket)
		return 0;
	__sync_fetch_and_add(&w->entered, 1);
	return w;
}

/* Releases the window. Returns whether no other probe used it meanwhile. */
INLINE int window_close(struct loupe_window *w, u64 ticket)
{
	int alone = *(volatile u64 *)&w->entered == ticket + 1;

	__sync_fetch_and_add(&w->left, 1);
	return alone;
}

/* Reads memory into the window, up to an address. Returns the number of bytes, 0 if the memory cannot be read. */
FUNCTION u64 window_move(u64 from, u64 end)
{
	struct loupe_window *w = window_of_cpu();
	u64 size = end - from;

	if (size > LOUPE_WINDOW)
		size = LOUPE_WINDOW;
	if (!w || bpf_probe_read_user(w->bytes, size, (const void *)from))
		return 0;
	return size;
}

/* A value that is unknown to the verifier. */
INLINE u64 window_unknown(struct loupe_window *w, u64 value)
{
	*(volatile u64 *)&w->scratch = value;
	return *(volatile u64 *)&w->scratch;
}

/* A word in the window. */
INLINE u64 window_word(struct loupe_window *w, u64 offset)
{
	return *(u64 *)(w->bytes + (offset & (LOUPE_WINDOW - 8)));
}

#if defined(__TARGET_ARCH_x86)
/* The only fields of kernel structs that are read; BTF of the kernel provides their offsets. */
struct thread_struct {
	unsigned long fsbase;
} __attribute__((preserve_access_index));

struct task_struct {
	struct thread_struct thread;
} __attribute__((preserve_access_index));

INLINE u64 thread_pointer(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	u64 base = 0;

	bpf_probe_read_kernel(&base, sizeof(base), &task->thread.fsbase);
	return base;
}
#endif

/* The g of the hit, which Go code has in a register since Go 1.17 (amd64) or always. Requires Linux 5.15. */
INLINE u64 hit_g(void)
{
	struct regs *user = (struct regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	u64 g = 0;

#if defined(__TARGET_ARCH_x86)
	bpf_probe_read_kernel(&g, sizeof(g), &user->r14);
#elif defined(__TARGET_ARCH_arm64)
	bpf_probe_read_kernel(&g, sizeof(g), &user->regs[28]);
#endif
	return g;
}

/* The time of an event of a goroutine. The clock is read in program order. */
INLINE u64 event_time(u64 goid)
{
	return bpf_ktime_get_ns();
}

/* Another probe on this CPU may preempt this one. */
#define COUNT_TOTAL(field)                                                               \
	do {                                                                             \
		u32 zero = 0;                                                            \
		struct loupe_totals *t = bpf_map_lookup_elem(&totals, &zero);            \
                                                                                         \
		if (t)                                                                   \
			__sync_fetch_and_add(&t->field, 1);                              \
	} while (0)

/* The ID of the thread if it belongs to the target, else 0. */
INLINE u32 own_thread(void)
{
	if (config.ns_ino) {
		struct bpf_pidns_info ns = {};

		if (bpf_get_ns_current_pid_tgid(config.ns_dev, config.ns_ino, &ns, sizeof(ns)))
			return 0;
		return ns.tgid == config.tgid ? ns.pid : 0;
	}
	u64 id = bpf_get_current_pid_tgid();

	return id >> 32 == config.tgid ? (u32)id : 0;
}

/* The same if probes are enabled. Each probe calls it first. */
INLINE u32 target_thread(void)
{
	u32 tid = control.enabled ? own_thread() : 0;

	if (tid)
		COUNT_TOTAL(hits);
	return tid;
}

/*
 * Reserves space for a record. The counters are per CPU, but a probe can be preempted by another one on the same CPU, so they
 * are updated atomically.
 */
INLINE void *reserve(u32 kind, u64 size, int produced)
{
	struct loupe_count *c = bpf_map_lookup_elem(&counts, &kind);

	if (!c)
		return 0;
	if (produced)
		__sync_fetch_and_add(&c->produced, 1);

	void *p = bpf_ringbuf_reserve(&events, size, 0);

	if (!p && produced) {
		__sync_fetch_and_add(&c->no_room, 1);
		__sync_fetch_and_add(&control.lost, 1);
	}
	return p;
}

INLINE void commit(void *record)
{
	u64 flags = BPF_RB_NO_WAKEUP;

	if (control.waits) {
		control.waits = 0;
		flags = BPF_RB_FORCE_WAKEUP;
	}
	bpf_ringbuf_submit(record, flags);
}

INLINE void unreadable(u32 kind)
{
	struct loupe_count *c = bpf_map_lookup_elem(&counts, &kind);

	if (!c)
		return;
	__sync_fetch_and_add(&c->produced, 1);
	__sync_fetch_and_add(&c->unreadable, 1);
	__sync_fetch_and_add(&control.lost, 1);
}

INLINE int stack_known(u64 id)
{
	u32 slot = (id >> 20) & ((1 << 14) - 1);
	u64 *recent = bpf_map_lookup_elem(&recent_stacks, &slot);

	if (!recent)
		return 0;
	if (*recent == id)
		return 1;
	if (!bpf_map_lookup_elem(&stacks, &id))
		return 0;
	*recent = id;
	return 1;
}

INLINE void stack_sent(u64 id)
{
	u8 one = 1;

	bpf_map_update_elem(&stacks, &id, &one, BPF_ANY);
}

INLINE int is_listed(u64 goid)
{
	if (goid < LOUPE_SMALL_IDS)
		return control.small[goid];
	return filter.listed[goid % LOUPE_FILTER] && bpf_map_lookup_elem(&listed, &goid) != 0;
}

INLINE struct loupe_allocated *allocated_find(u64 goid) { return bpf_map_lookup_elem(&allocated, &goid); }

/* Begins to count what a goroutine allocates, unless that has begun. */
INLINE void allocated_add(u64 goid)
{
	if (!allocated_find(goid)) {
		struct loupe_allocated none = {};

		if (bpf_map_update_elem(&allocated, &goid, &none, BPF_ANY))
			__sync_fetch_and_add(&control.unlisted, 1);
	}
}

INLINE void allocated_end(u64 goid) { bpf_map_delete_elem(&allocated, &goid); }

INLINE u32 *place_of(u64 g) { return &listed_gs.at[g * 0x9e3779b97f4a7c15ull >> 50]; }

INLINE void count_listed(u64 g, int change)
{
	__sync_fetch_and_add(place_of(g), change);
	__sync_fetch_and_add(&listed_gs.all, change);
}

/* Whether the goroutine of a g can be listed; a g of 0 is not known. */
INLINE int may_be_listed(u64 g) { return !g || *place_of(g); }

INLINE int any_listed(void) { return listed_gs.all != 0; }

INLINE void list_add(u64 g, u64 goid)
{
	u8 one = 1;

	if (goid < LOUPE_SMALL_IDS) {
		if (!control.small[goid])
			count_listed(g, 1);
		control.small[goid] = 1;
		return;
	}
	__sync_fetch_and_add(&filter.listed[goid % LOUPE_FILTER], 1);

	long problem = bpf_map_update_elem(&listed, &goid, &one, BPF_NOEXIST);

	if (!problem) {
		count_listed(g, 1);
		return;
	}
	__sync_fetch_and_add(&filter.listed[goid % LOUPE_FILTER], -1);
	if (problem != -EEXIST)
		__sync_fetch_and_add(&control.unlisted, 1);
}

#include "identity.h"

/* The same as target_thread; 0 also if only goroutines of requests are reported, and the hit concerns none of them. */
INLINE u32 thread_if(int concerns)
{
	if (concerns || !CONFIG(follow) || identify) /* threads are identified by what they stop to run, too */
		return target_thread();
	if (control.enabled)
		COUNT_TOTAL(hits);
	return 0;
}

/*
 * The request of a goroutine ends, or the goroutine. This is called before the time of the end is read, so that no sample of a profiler is
 * later than the end of its span.
 */
INLINE void identity_ends(u64 goid)
{
	if (identify && is_listed(goid))
		identity_end(goid);
}

INLINE void list_remove(u64 g, u64 goid)
{
	if (goid < LOUPE_SMALL_IDS) {
		if (control.small[goid])
			count_listed(g, -1);
		control.small[goid] = 0;
	} else if (filter.listed[goid % LOUPE_FILTER] && !bpf_map_delete_elem(&listed, &goid)) {
		__sync_fetch_and_add(&filter.listed[goid % LOUPE_FILTER], -1);
		count_listed(g, -1);
	}
}

/* eBPF programs do not change the target, so they send no contexts, but spans can have identities: see propagate.h. */
#define HAS_CONTEXTS 0

INLINE void context_end_call(u64 goid) {}
INLINE void context_forget(u64 goid) {}

INLINE int is_system_start(u64 pc)
{
	return bpf_map_lookup_elem(&system_starts, &pc) != 0;
}

/* Whether a goroutine with a start function belongs to no request, although it is created in one: it is one of the runtime. */
INLINE int has_no_identity(u64 startpc) { return identify && is_system_start(startpc); }

/* Returns whether the wait was stored. */
INLINE int wait_begin(u64 goid, const struct loupe_wait *w)
{
	return bpf_map_update_elem(&waits, &goid, w, BPF_ANY) == 0;
}

/* Returns whether there was a wait. */
INLINE int wait_end(u64 goid, struct loupe_wait *w)
{
	struct loupe_wait *found = bpf_map_lookup_elem(&waits, &goid);

	if (!found)
		return 0;
	*w = *found;
	bpf_map_delete_elem(&waits, &goid);
	return 1;
}

char probe_license[] SEC("license") = "Dual MIT/GPL";

#endif
