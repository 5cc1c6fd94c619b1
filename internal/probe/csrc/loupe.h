/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The interface between probes and their reader: the settings of a probe, and the records that it writes. The Go declarations of these
 * types are generated from this file.
 *
 * Probes contain no constants of the Go runtime. Offsets, states and the locations of arguments are settings, because
 * they differ between releases.
 */
#ifndef LOUPE_H
#define LOUPE_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#include "kinds.h"

enum loupe_limit {
	LOUPE_MAX_STACK = 128, /* return addresses in one stack */
	LOUPE_NO_FIELD = 0xffffffff, /* the release does not have the field */
	LOUPE_G_HEAD = 24, /* words at the beginning of a g that are read at once */
	LOUPE_WINDOW = 1024, /* bytes of a stack that are read at once; a power of two */
	LOUPE_SMALL_IDS = 4064, /* smaller goroutine IDs have a byte each in the filter */
	LOUPE_FILTER = 8192, /* counters of larger IDs; a power of two */
	LOUPE_KIND_STACK = 255, /* a record with the addresses of a stack, not an event */
	LOUPE_KIND_SWITCH = 254, /* a coroutine switches to another: three events in one */
	LOUPE_KIND_SET = 128, /* records of the first set other than that of the runtime; further sets have the numbers that follow */
	LOUPE_MAX_SETS = 96, /* in addition to that of the runtime */
	LOUPE_MAX_PROBES = 384, /* of all sets together */
	LOUPE_MAX_RECORD = 8192, /* bytes */
	LOUPE_RESULTS = 4, /* result words that a probe can read */
	LOUPE_BYTES_BITS = 40, /* of the bytes in a word with allocated bytes and objects: see struct loupe_record */
};

/* How to read registers at one probe's site. */
struct loupe_site {
	u8 check_taken; /* the probe is on the branch of a stack check: a hit with the branch taken is not a call */
	u8 g_reg;       /* number of the register that holds the current g; LOUPE_NO_REG: none */
	short sp_moved; /* how far the stack pointer is below its value at the function's entry, in bytes */

	/*
	 * If a word is about to be stored in a new object: numbers of the registers that hold the object and the word;
	 * LOUPE_NO_REG elsewhere.
	 */
	u8 object_reg, value_reg;

	/* Where a function returns: offsets of its result words from the stack pointer; LOUPE_NO_SLOT: in registers. */
	short results[LOUPE_RESULTS];

	u64 caller, caller_size; /* the function that must have called this one; 0: any */
};

enum { LOUPE_NO_SLOT = -1 };

enum { LOUPE_NO_REG = 255 };

/*
 * A table of counters by a key, for probes in machine code. Each lane has its own; the reader adds them up. A table is the number of
 * hits whose key had no room, then its cells: the key, the number of times it was counted (0: the cell is free), and the values.
 */
struct loupe_table {
	u32 offset; /* in the tables of a lane, in bytes */
	u32 mask;   /* number of cells less one; a power of two less one */
	u32 values; /* number of values in a cell */
	u32 unused;
};

/*
 * The settings of one set, in addition to loupe_config. Before it includes this file, the source of a set defines enum loupe_probe
 * with its probes, PROBE_..., enum loupe_setting with the settings that only this set has, SETTING_..., and enum loupe_table_id
 * with its tables of counters, TABLE_....
 */
struct loupe_set {
	u64 kind; /* of the records of the set; the runtime's has kinds for each probe */
	struct loupe_site sites[PROBE_COUNT];
	u64 settings[SETTING_COUNT];
	struct loupe_table tables[TABLE_COUNT];
};

/* Settings for all sets; fixed while probes are attached. */
struct loupe_config {
	u32 tgid;           /* the process ID, in the PID namespace ns_ino if that is set */
	u32 stack_depth;    /* addresses to record; 0: no stacks */
	u64 ns_dev, ns_ino; /* the reader's PID namespace; 0: the initial one */
	u64 kinds[LOUPE_KIND_WORDS]; /* bit set of event kinds to report */
	u64 min_block;      /* nanoseconds; 0: report each wait at its begin */
	u64 heap_live;      /* address of the number of live heap bytes; 0: unknown */

	/* The function with which the runtime interrupts goroutines (asyncPreempt); size 0: none. */
	u64 preempt_start, preempt_size;
	u64 preempt2_start, preempt2_size; /* the Go function that it calls (asyncPreempt2); size 0: none */
	u64 syscall_start, syscall_size;   /* functions without a frame that make system calls; size 0: none */

	u32 unused;
	u8 only_listed;     /* report only goroutines listed in the filter */
	u8 skip_listed;     /* skip goroutines listed in the filter: those of the runtime */
	u8 follow;          /* list the goroutines that listed ones create, until they end */
	u8 reg_abi;         /* arguments are in registers; else on the stack */
	u8 stw_reason;      /* stopTheWorldWithSema has an argument with the reason */
	u8 procs;           /* report the P that a goroutine starts on */
	u8 systemstack_frameless; /* systemstack has no frame */
	u8 allocated;       /* what goroutines of requests allocate is counted, and is in their records; with follow, they are the listed ones */

	/* Byte offsets in the runtime's structs. */
	u32 g_goid, g_m, g_stack, g_sched_pc, g_sched_sp, g_sched_lr, g_sched_bp, g_startpc, g_gopc, g_parent, g_coroarg, g_coroexit;
	u32 m_curg, m_p, m_procid, p_m, p_id;
	u32 coro_gp;
	u32 hchan_dataqsiz;

	int g_tls; /* offset of g from the thread pointer, before Go 1.17 */

	/* The runtime's values of goroutine states, without the scan bit. */
	u32 st_runnable, st_syscall, st_waiting, st_dead, st_dead_extra;

	u32 reason_coroutine;                         /* wait reason of a coroutine that has switched to another */
	u32 reason_preempted, trace_reason_preempted; /* of a goroutine that stops for the garbage collector */
	u32 select_cases;     /* argument of selectgo with the number of cases, or of send cases */
	u32 select_recvs;     /* argument with the number of receive cases; LOUPE_NO_FIELD: none */
	u32 g_secret;         /* offset in a g; LOUPE_NO_FIELD: the program has no secret mode */
};

enum loupe_flag {
	LOUPE_WAITING = 1,     /* GoCreate: the goroutine waits to be switched to */
	LOUPE_NO_PARENT = 2,   /* GoCreate: not created by a go statement */
	LOUPE_SWITCH_EXIT = 4, /* LOUPE_KIND_SWITCH: the first goroutine ends */
	LOUPE_PREEMPTED = 8,   /* GoStop: the goroutine was preempted */
	LOUPE_HAS_REASON = 16, /* STWBegin: reason is valid */
};

/* What a goroutine has allocated since it was listed. */
struct loupe_allocated {
	u64 bytes, objects;
};

/*
 * One event. With loupe_config.allocated, records of notes and of GoDestroy have the bytes and the objects that their goroutine has
 * allocated in value and arg. Those of GoBlock, GoSyscallBegin and LOUPE_KIND_SWITCH have both in value, and GoUnblock has those of
 * the other goroutine, unless min_block is set: the objects above LOUPE_BYTES_BITS bits with the bytes, each at most what fits.
 */
struct loupe_record {
	u64 time; /* CLOCK_MONOTONIC, ns */
	u64 g;    /* goroutine ID */
	u64 arg;  /* the other goroutine, or an address */
	u64 value;
	u64 stack; /* ID of a stack; 0: none */
	u32 tid;
	u32 lost; /* events lost so far, modulo 2^32 */
	u8 kind;
	u8 reason;       /* runtime.waitReason, or another set of the runtime's reasons */
	u8 trace_reason; /* the execution tracer's block reason */
	u8 flags;
	u16 words; /* size of the record including the data that follows, in words of eight bytes */
	u16 proc;  /* GoStart: one more than the ID of the P; 0: unknown, or beyond 65534 */
};

/* A GoCreate event. */
struct loupe_create {
	struct loupe_record r;
	u64 gopc, startpc;
};

/* The addresses of a stack, the innermost first; sent before the first event that refers to it. */
struct loupe_stack {
	struct loupe_record r; /* stack is its ID, value the number of addresses, arg a hidden caller; flags 1: there are more frames, or they could not be read */
	u64 pcs[LOUPE_MAX_STACK];
};

/* A text or bytes of the target in a record of a set; the bytes follow, up to a multiple of eight. */
struct loupe_text {
	u32 size;  /* bytes that follow */
	u32 marks; /* enum loupe_mark */
	u64 length; /* in the target */
};

/* The problems of a text, or of a whole record. */
enum loupe_mark {
	LOUPE_CUT = 1,        /* only the beginning was read: the text is longer than its limit */
	LOUPE_UNREADABLE = 2, /* its memory could not be read */
	LOUPE_IMPOSSIBLE = 4, /* its length or its address is impossible */
	LOUPE_FULL = 8,       /* the record has no room for it */
	LOUPE_SECRET = 16,    /* the goroutine is in secret mode (package runtime/secret): no text was read */
};

/* Counts the events of one kind on one CPU. */
struct loupe_count {
	u64 produced;   /* events that matched the filters */
	u64 no_room;    /* of these, lost because the buffer was full */
	u64 unreadable; /* of these, lost because the target's memory could not be read */
};

/*
 * Counts what happens on one CPU, whether it is reported or not. Goroutines count if they match all filters, except that they need not be
 * sampled.
 */
struct loupe_totals {
	u64 hits;    /* of any probe */
	u64 created; /* goroutines, if a probe for GoCreate is attached */
	u64 ended;   /* the same for GoDestroy */
};

/* A current wait, if only long waits are reported. */
struct loupe_wait {
	u64 time, stack, lock;
	u32 tid;
	u8 reason, trace_reason;
};

/* Memory that the reader writes while probes run. */
struct loupe_control {
	u32 enabled; /* probes do nothing until this is set */
	u32 waits;   /* the reader sleeps, and the next event must wake it */
	u32 lost;    /* events lost so far, modulo 2^32 */
	u16 epoch;   /* part of each stack ID: after a change all stacks are sent again */
	u16 reads;   /* probes in machine code may make system calls that read memory */
	u64 unlisted; /* goroutines for which the filter had no room */
	u32 skip;     /* goroutines are not sampled if sample_hash returns less: package sampling */
	u32 unused;
	u8 small[LOUPE_SMALL_IDS]; /* whether the filter lists an ID: nearly all of the runtime's own goroutines have small ones */
};

/*
 * How many large IDs with the same remainder the filter lists. Most goroutines are not listed: a probe finds that here, in a cache line
 * that the goroutines created with it share, and need not search the filter itself. The reader adds to them, too.
 */
struct loupe_filter {
	u32 listed[LOUPE_FILTER];
};

#endif
