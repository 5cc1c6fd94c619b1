/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The memory of probes in machine code. The Go side of these types is generated from this file, like that of loupe.h.
 *
 * One region is shared with the reader: struct loupe_shared, the filter's set, the lanes, their rings. A lane is the working
 * memory of one hit at a time: the hit that takes it owns its register save area, its scratch stack, its counters and the write
 * ends of its rings. There are more lanes than processors, so a hit never waits for a lane.
 *
 * Each lane has one ring for events, in the order of their times, and one for stacks, which the reader drains first, so that it
 * knows the stack of each event.
 *
 * struct loupe_native is in private memory of the target, after the code. In a forked child it is wiped, and
 * the probes then do not access shared memory.
 */
#ifndef LOUPE_LANES_H
#define LOUPE_LANES_H

#include "loupe.h"

enum loupe_lane_limit {
	LOUPE_LANE_SPAN = 16384, /* size and alignment of a lane without its rings: the stack pointer determines the lane */
	LOUPE_LANE_TOP = 64,     /* bytes left free above the scratch stack, so that it never points into the next lane */
	LOUPE_STACK_USE = 3216,  /* bytes that probes may use of the scratch stack, which has three times as many */
	LOUPE_BUCKET = 8,        /* stacks that share a place in the table of those sent: a cache line */
	LOUPE_TIMES = 32768,     /* entries of the table of goroutines' last times */
	LOUPE_CARRIED = 8192,    /* entries of the ring of struct loupe_carried */
	LOUPE_WINDOW_ENTRIES = 16, /* entries of a hash table that are searched for one key */
	LOUPE_IMAGE_PARTS = 4,     /* parts of the executable that probes read by loads */
	LOUPE_NO_ARENAS = 1,       /* loupe_shared.arenas: the heap stays unknown */
};

/* The write end of a ring. A record that does not fit before the ring's end is written at its start. */
struct loupe_ring {
	u64 head; /* bytes written so far, without the current record */
	u64 addr; /* in the target */
	u64 mask; /* its size less one; a power of two less one */
};

struct loupe_lane {
	/* The cache line of the lane's owner. */
	u32 busy;      /* 1: a hit owns it */
	u32 lost;      /* events lost by its owners, modulo 2^32: the reader adds up those of all lanes */
	u64 turns;     /* how many times it was released: the hits */
	u64 g;         /* the g of the hit */
	u64 stamp;     /* the time of the last hit: no later record is older */
	u64 under_way; /* head when the last event's record was begun, times 256, plus its kind: if head is unchanged, the record is incomplete */
	struct loupe_ring events;

	/* The cache line of the reader. */
	u64 events_tail, stacks_tail; /* bytes read so far */
	u64 unused1[6];

	struct loupe_ring stacks; /* rarely used */
	u64 tables; /* address of the lane's tables of counters */
	u64 created, ended; /* as in struct loupe_totals */
	u64 unused2[2];

	u64 regs[40]; /* a struct regs: registers at the hit */
	struct loupe_count counts[LOUPE_KIND_LIMIT];
	/* The rest is the scratch stack. */
};

/* The memory that the target and the reader share in addition to the lanes. */
struct loupe_shared {
	struct loupe_control control; /* lost counts hits for which no lane was free, and nothing else */
	u64 missed[LOUPE_MAX_PROBES]; /* the same by probe, in the order of the sets */

	u64 contexts_full; /* contexts of spans for which there was no room */
	u64 carried;       /* the number of the newest struct loupe_carried */
	u64 closing;       /* probes lend no more memory to the program: struct loupe_loans */
	u64 arenas;        /* loupe_native.arenas if the program had not started yet: 0 until it is known, LOUPE_NO_ARENAS for good */

	/* A separate cache line: with the coarse clock all hits write it. */
	u64 ticks __attribute__((aligned(64))); /* counts hits, and samples of the reader */

	struct loupe_filter filter;
};

/* A current wait and its goroutine; 0: a free entry. */
struct loupe_wait_entry {
	u64 goid;
	struct loupe_wait wait;
};

/* The context of a span; key 0: a free entry. See propagate.h. */
struct loupe_context {
	u64 key;
	u64 trace[2]; /* the trace ID, as two big-endian numbers */
	u64 span;     /* the span ID, likewise */
	u64 flags;    /* enum loupe_context_flag */
	u64 about;    /* the key of another entry, or 0; if key is the address of a request that is sent: when the entry was made */
	u64 carried;  /* number of a struct loupe_carried; 0: none */
	u64 unused;
};

/* Values of headers that requests carry on: see state.h. */
struct loupe_carried {
	u64 number; /* 0: it is being written */
	u32 state_length, baggage_length;
	u8 state[256];
	u8 baggage[496];
};

_Static_assert(sizeof(struct loupe_carried) == 768, "the size of what is carried");

/*
 * Memory that probes lend to structures of the program: headers of messages that are being sent. It is private memory of the target,
 * outside of the program's own heap, whose garbage collector ignores addresses there. A probe takes a loan and gives it back. The
 * memory stays mapped for as long as one is out, even if no probe is left. A set bit is a loan that is out. The large loans begin after
 * LOUPE_LOANS_HEAD bytes, and the small ones follow.
 */
enum loupe_loan_limit {
	LOUPE_LOANS_HEAD = 4096,
	LOUPE_LARGE_LOANS = 64,
	LOUPE_LARGE_LOAN = 2048, /* bytes */
	LOUPE_SMALL_LOANS = 16384,
	LOUPE_SMALL_LOAN = 128, /* bytes */
};

struct loupe_loans {
	u64 hint; /* the word of small in which there is probably a free bit */
	u64 large;
	u64 unused[6];
	u64 small[LOUPE_SMALL_LOANS / 64];
};

enum loupe_context_flag {
	LOUPE_SAMPLED = 1,
	LOUPE_SILENT = 2, /* the request gets no header */
	LOUPE_OWN_STATE = 4, /* it has a tracestate of its own, */
	LOUPE_OWN_BAGGAGE = 8, /* or a baggage */
};

/* What a goroutine has allocated; key 0: a free entry. */
struct loupe_allocated_entry {
	u64 goid;
	struct loupe_allocated sums;
};

/*
 * Settings; fixed while probes are attached. Tables have a power of two of entries, at least LOUPE_WINDOW_ENTRIES; a mask is
 * the number of entries minus one.
 */
struct loupe_native {
	u64 shared;           /* address of struct loupe_shared; 0: probes do nothing */
	u64 lanes, lanes_end; /* start of the first lane and end of the last */
	u64 known, known_mask;   /* stacks that were sent: u64 */
	u64 times;               /* of goroutines' last events: u64, LOUPE_TIMES of them */
	u64 listed, listed_mask; /* goroutines with large IDs to report or to skip, in shared memory: u64 */
	u64 starts, starts_mask; /* start functions of the runtime's own goroutines: u64 */
	u64 waits, waits_mask;   /* struct loupe_wait_entry */
	u64 pid;                 /* of the process, in its own PID namespace */
	u64 arenas;              /* goproc.HeapMap: address of the heapArena structs by index; 0: unknown */
	u64 arena_base;          /* added to an address before its index is computed */
	u64 arena_spans;         /* offset of heapArena.spans */
	u64 arenas_at;           /* the runtime stores arenas here when it starts (goproc.StartingHeap); 0: arenas is final */
	u64 span_start, span_pages; /* offsets of mspan.startAddr and npages */
	u64 faults[2];           /* addresses of settings that make memory unreadable unless they are 0: u32 */
	u64 image[2 * LOUPE_IMAGE_PARTS]; /* start and size of the parts of the executable */

	/* The contexts of spans: struct loupe_context, in shared memory. 0: the requests that the program sends get no headers. */
	u64 contexts, contexts_mask;
	u64 carried;       /* struct loupe_carried, in shared memory; 0: requests carry nothing on */
	u64 baggage;       /* 1: they carry baggage, too */
	u64 loans;         /* address of struct loupe_loans; 0: there is none */
	u64 seed;          /* of IDs, secret */
	u64 sample_bound;  /* a new trace is sampled if the second word of its ID, shifted right by one, is below */
	u64 sample_parent; /* 1: spans with a parent are sampled if that is */

	u64 allocated, allocated_mask; /* struct loupe_allocated_entry, in shared memory; 0: allocations are not counted */

	struct loupe_config config;
};

/* The same for one set. */
struct loupe_native_set {
	struct loupe_native base;
	struct loupe_set set;
};

#endif
