/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The identities of spans of requests that are served, for eBPF programs, and the map by which other eBPF programs, such as the
 * OpenTelemetry eBPF profiler, know which span a thread works for. The probes choose the IDs of these spans, because the map must have
 * them while the request is served. The Go half uses the same ones.
 *
 * A goroutine belongs to a request from its begin, or from its own creation in it, until the request ends. The map has an entry for a
 * thread while it runs a goroutine that belongs to a request. All of this happens only if identify is set.
 */
#ifndef LOUPE_IDENTITY_H
#define LOUPE_IDENTITY_H

/* Whether spans get identities. The verifier removes what depends on it if it is 0. */
const volatile u32 identify = 0;

/* A value of the shared map: the bytes of the IDs in the order in which they are written in hexadecimal. */
struct traces_ctx {
	u64 trace[2];
	u64 span;
};

/* The shared map (OTEP 4855), by the ID of a thread as bpf_get_current_pid_tgid returns it. The reader replaces it by the pinned one. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct traces_ctx);
} traces_ctx_v1 SEC(".maps");

/* Whether the program has made a span of the request itself, by an SDK. */
enum {
	OWN_NONE,
	OWN_SERVER,   /* it begins a server span, */
	OWN_CONSUMER, /* or a consumer span, whose IDs are not known yet */
	OWN_BEGUN,
};

/* The span that a goroutine belongs to. */
struct loupe_identity {
	struct traces_ctx ids;
	u64 owner; /* the goroutine that serves the request; 0: this one */
	u64 about; /* the address of the context.Context that passes the request on, or 0 */
	u64 parent; /* the ID of the span in its header; 0: none */
	u32 over;  /* not 0: the request has ended */
	u16 own;   /* OWN_... */
	u16 set;   /* which set has reported the request: an index of loupe_target.own */
};

/* By goroutine. It is there only while the filter lists the goroutine. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct loupe_identity);
} identities SEC(".maps");

enum {
	SPAN_THREADS = 32, /* a power of two */
};

/* The threads that have run other goroutines of a request than the one that serves it: each at the remainder of its ID. */
struct loupe_threads {
	u32 tid[SPAN_THREADS];
};

/* The value of a new entry. It is not on the stack, which has no room for it. */
const struct loupe_threads no_threads = {};

/* By the ID of the span, if there are any. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct loupe_threads);
} span_threads SEC(".maps");

enum {
	OWN_SETS = 128, /* a power of two */
};

/* What the probes learn of the target. */
struct loupe_target {
	u64 tgid; /* the upper half of the IDs of its threads; 0: no entry has been made. The reader uses it to remove the entries */

	/*
	 * Whether the program makes spans of the requests that a set reports. Then the thread of such a request has no entry until the
	 * program does that, or until the goroutine runs again: nobody would know the IDs before.
	 */
	u8 own[OWN_SETS];
} target SEC(".data.target") = {};

/* The thread belongs to no span any more. */
INLINE void thread_leaves(void)
{
	u64 thread = bpf_get_current_pid_tgid();

	if (bpf_map_lookup_elem(&traces_ctx_v1, &thread))
		bpf_map_delete_elem(&traces_ctx_v1, &thread);
}

INLINE void thread_enters(u64 thread, const struct traces_ctx *ids)
{
	if (!target.tgid)
		target.tgid = thread >> 32;
	bpf_map_update_elem(&traces_ctx_v1, &thread, ids, BPF_ANY);
}

/* Whether the entry of a thread is that of a span. */
INLINE int thread_is_in(u64 thread, u64 span)
{
	struct traces_ctx *c = bpf_map_lookup_elem(&traces_ctx_v1, &thread);

	return c && c->span == span;
}

/*
 * The thread begins to run a goroutine that was created for a request. Returns 0 if the request has ended, or if the thread cannot be
 * noted as one of the request: then nothing could remove its entry when the request ends.
 */
FUNCTION int child_enters(u64 goid)
{
	struct loupe_identity *child = bpf_map_lookup_elem(&identities, &goid), *owner;
	u64 thread = bpf_get_current_pid_tgid(), by, span;
	struct loupe_threads *threads;
	struct traces_ctx ids;
	u32 other, at = (u32)thread & (SPAN_THREADS - 1);

	if (!child)
		return 0;
	by = child->owner;
	ids = child->ids;
	span = ids.span;
	owner = bpf_map_lookup_elem(&identities, &by);
	if (!owner || owner->ids.span != span || owner->over)
		return 0;
	threads = bpf_map_lookup_elem(&span_threads, &span);
	if (!threads) {
		bpf_map_update_elem(&span_threads, &span, &no_threads, BPF_NOEXIST);
		threads = bpf_map_lookup_elem(&span_threads, &span);
	}
	if (!threads)
		return 0;
	other = *(volatile u32 *)&threads->tid[at];
	if (other && other != (u32)thread && thread_is_in(thread >> 32 << 32 | other, span))
		return 0;
	*(volatile u32 *)&threads->tid[at] = thread;
	thread_enters(thread, &ids);

	/* The request may have ended meanwhile, or another thread may have used the same place. */
	owner = bpf_map_lookup_elem(&identities, &by);
	if (owner && owner->ids.span == span && !*(volatile u32 *)&owner->over)
		return *(volatile u32 *)&threads->tid[at] == (u32)thread;
	bpf_map_delete_elem(&span_threads, &span);
	return 0;
}

/* Removes the entries of the threads that run other goroutines of a request that has ended. */
FUNCTION int children_leave(u64 span)
{
	struct loupe_threads *threads = bpf_map_lookup_elem(&span_threads, &span);
	u64 process = bpf_get_current_pid_tgid() >> 32 << 32;

	if (!threads)
		return 0;
	for (u32 i = 0; i < SPAN_THREADS; i++) {
		u64 thread = process | *(volatile u32 *)&threads->tid[i];

		if (thread != process && thread_is_in(thread, span))
			bpf_map_delete_elem(&traces_ctx_v1, &thread);
	}
	bpf_map_delete_elem(&span_threads, &span);
	return 0;
}

/* The current thread begins to run a goroutine that the filter lists. */
INLINE void thread_runs(u64 goid)
{
	struct loupe_identity *id;

	if (!identify)
		return;
	id = bpf_map_lookup_elem(&identities, &goid);
	if (id && !id->owner) {
		struct traces_ctx ids = id->ids;

		thread_enters(bpf_get_current_pid_tgid(), &ids);
	} else if (!id || !child_enters(goid)) {
		thread_leaves();
	}
}

/* It runs one that the filter does not list, or none. */
INLINE void thread_stops(void)
{
	if (identify)
		thread_leaves();
}

/* The request of a goroutine ends, or the goroutine, which the current thread runs. */
FUNCTION int identity_end(u64 goid)
{
	struct loupe_identity *id = bpf_map_lookup_elem(&identities, &goid);

	if (id && !id->owner) {
		u64 span = id->ids.span;

		__sync_fetch_and_add(&id->over, 1); /* before threads of the request are searched */
		children_leave(span);
	}
	if (id)
		bpf_map_delete_elem(&identities, &goid);
	thread_leaves();
	return 0;
}

/* A goroutine begins a span by an SDK; own is OWN_NONE if that can describe no request. The rules are those of join.Tracker.Made. */
INLINE void identity_own_begins(u64 goid, u16 own)
{
	struct loupe_identity *id = bpf_map_lookup_elem(&identities, &goid);

	if (id && !id->owner && id->own != OWN_BEGUN)
		id->own = own;
}

/* That span has IDs, which become those of the request. parent is the ID of its parent. */
INLINE void identity_own_begun(u64 goid, const struct traces_ctx *ids, u64 parent)
{
	struct loupe_identity *id = bpf_map_lookup_elem(&identities, &goid), new;
	u64 span;

	if (!id || id->owner || (id->own != OWN_SERVER && (id->own != OWN_CONSUMER || !parent || parent != id->parent)))
		return;
	span = id->ids.span;
	new = *id;
	new.ids = *ids;
	new.own = OWN_BEGUN;
	target.own[id->set & (OWN_SETS - 1)] = 1;
	bpf_map_update_elem(&identities, &goid, &new, BPF_ANY);
	children_leave(span);
	thread_enters(bpf_get_current_pid_tgid(), ids);
}

/* A goroutine creates another, which belongs to the same request. */
INLINE void context_inherit(u64 from, u64 to)
{
	struct loupe_identity *creator, own = {};

	if (!identify)
		return;
	creator = bpf_map_lookup_elem(&identities, &from);
	if (!creator)
		return;
	own.ids = creator->ids;
	own.owner = creator->owner ? creator->owner : from;
	if (bpf_map_update_elem(&identities, &to, &own, BPF_ANY))
		__sync_fetch_and_add(&control.unlisted, 1);
}

INLINE u64 random_word(void)
{
	u64 word = (u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();

	return word ? word : 1;
}

#endif
