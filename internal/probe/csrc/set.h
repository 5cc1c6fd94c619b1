/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The C half of a set includes this file after its enums (see struct loupe_set). The same source is compiled to eBPF and to
 * machine code.
 *
 * A set sends notes: records with a payload, which its Go half decodes in the order in which it was written. Or it counts in tables,
 * which the reader polls.
 */
#ifndef LOUPE_SET_H
#define LOUPE_SET_H

#ifdef __bpf__
#include "bpf.h"

/* The number of hits whose key had no room, by table of the set. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TABLE_COUNT + 1);
	__type(key, u32);
	__type(value, u64);
} overflow SEC(".maps");

INLINE void table_full(u32 table)
{
	u64 *n = bpf_map_lookup_elem(&overflow, &table);

	if (n)
		__sync_fetch_and_add(n, 1);
}

/*
 * A table of counters by a key: for each key the number of times it was counted, and count values. find_name returns the values of
 * a key, which is added if the table does not have it; 0 if there is no room, which is counted. added is set for a new key: a probe
 * can count by the hash of a text, and send the text in a note if the hash is new. added may be set more than once for a key.
 * The reader polls the table.
 */
#define TABLE(name, count)                                                                     \
	struct cell_##name {                                                                   \
		u64 counted, values[count];                                                    \
	};                                                                                     \
	struct {                                                                               \
		__uint(type, BPF_MAP_TYPE_PERCPU_HASH);                                        \
		__uint(max_entries, 1);                                                        \
		__type(key, u64);                                                              \
		__type(value, struct cell_##name);                                             \
	} table_##name SEC(".maps");                                                           \
	INLINE u64 *find_##name(u64 key, int *added)                                           \
	{                                                                                      \
		struct cell_##name *c = bpf_map_lookup_elem(&table_##name, &key), zero = {};   \
                                                                                               \
		*added = 0;                                                                    \
		if (!c) {                                                                      \
			*added = !bpf_map_update_elem(&table_##name, &key, &zero, BPF_NOEXIST); \
			c = bpf_map_lookup_elem(&table_##name, &key);                          \
			if (!c) {                                                              \
				table_full(TABLE_##name);                                      \
				return 0;                                                      \
			}                                                                      \
		}                                                                              \
		__sync_fetch_and_add(&c->counted, 1);                                          \
		return c->values;                                                              \
	}

/* Adds to one of the values of a key. Another probe on this CPU may preempt this one. */
#define ADD(values, n, amount) __sync_fetch_and_add(&(values)[n], amount)

/* Sets one of the values of a key that describe the key (probe.Table.Kept): it is the same whenever it is set. */
#define KEEP(values, n, value) (*(volatile u64 *)&(values)[n] = (value))
#else
#include "native.h"
#endif
#include "go.h"

/* Bytes of a payload and of one text in it, powers of two. A set may define smaller or larger ones. */
#ifndef LOUPE_PAYLOAD
#define LOUPE_PAYLOAD 1024
#endif
#ifndef LOUPE_TEXT
#define LOUPE_TEXT 256
#endif

/*
 * The items of a payload begin in the first LOUPE_PAYLOAD bytes, or fewer if the probe says so; the last of them may be a text. An eBPF
 * program must reserve what the largest payload requires before it knows the texts, so notes with few items should say so.
 */
struct loupe_note {
	struct loupe_record r;
	u8 payload[LOUPE_PAYLOAD + sizeof(struct loupe_text) + LOUPE_TEXT];
};

_Static_assert(!(LOUPE_PAYLOAD & (LOUPE_PAYLOAD - 1)) && !(LOUPE_TEXT & (LOUPE_TEXT - 1)), "not a power of two");
_Static_assert(sizeof(struct loupe_note) <= LOUPE_MAX_RECORD, "a note is too large");

/* A note that is being written. */
struct note {
	struct loupe_note *to;
	u64 at;   /* bytes of the payload */
	u64 room; /* the items begin in so many bytes; a power of two, and constant */
};

/* Hides the value from the compiler, so that bounds are computed where the verifier sees them. */
#define OPAQUE(value) asm volatile("" : "+r"(value))

#ifndef __bpf__
INLINE u64 hit_g(void) { return lane()->g; }
#endif

/*
 * Whether the goroutine of the hit is in secret mode, or that cannot be read. Then notes contain no texts: neither statements, nor
 * arguments, nor names.
 */
INLINE int in_secret(void)
{
	u64 g;
	u32 nesting = 0;

	if (CONFIG(g_secret) == LOUPE_NO_FIELD)
		return 0;
	g = hit_g();
	return !g || read_memory(&nesting, sizeof(nesting), g + CONFIG(g_secret)) || nesting;
}

/*
 * Begins a note of a goroutine. what is the kind of the note, defined by the set; stack is the result of OWN_STACK, or 0. Returns 0 if
 * the buffer is full; the note is then counted as lost.
 */
INLINE int note_begin_in(struct note *n, u64 room, u8 what, u32 tid, u64 goid, u64 stack)
{
	u32 kind = SET(kind);

	n->at = 0;
	n->room = room;
	n->to = reserve(kind, sizeof(*n->to) - LOUPE_PAYLOAD + room, 1);
	if (!n->to)
		return 0;
	fill(&n->to->r, kind, tid, goid);
	n->to->r.reason = what;
	n->to->r.stack = stack;
	if (in_secret())
		n->to->r.flags |= LOUPE_SECRET;
	fill_allocated(&n->to->r, goid);
	return 1;
}

INLINE int note_begin(struct note *n, u8 what, u32 tid, u64 goid, u64 stack) { return note_begin_in(n, LOUPE_PAYLOAD, what, tid, goid, stack); }

/* Adds a word. */
INLINE void note_word(struct note *n, u64 word)
{
	u64 at = n->at;

	OPAQUE(at);
	if (at > n->room - 8) {
		n->to->r.flags |= LOUPE_FULL;
		return;
	}
	at &= n->room - 8;
	*(u64 *)(n->to->payload + at) = word;
	n->at = at + 8;
}

/*
 * Adds length bytes at an address in the target, at most LOUPE_TEXT of them. Problems are marked in the note.
 * The memory need not be valid. In secret mode the text is empty.
 */
INLINE void note_text(struct note *n, u64 addr, u64 length)
{
	u64 at = n->at, size = length;
	u32 marks = 0;

	OPAQUE(at);
	if (at > n->room - sizeof(struct loupe_text)) {
		n->to->r.flags |= LOUPE_FULL;
		return;
	}
	at &= n->room - 8;

	struct loupe_text *t = (struct loupe_text *)(n->to->payload + at);

	if (n->to->r.flags & LOUPE_SECRET) {
		size = length = 0;
	} else if (length >> 47) {
		marks = LOUPE_IMPOSSIBLE;
		size = 0;
	} else if (length > LOUPE_TEXT) {
		marks = LOUPE_CUT;
		size = LOUPE_TEXT;
	}
	OPAQUE(size);
	if (size > LOUPE_TEXT)
		size = LOUPE_TEXT;
	if (size && read_foreign(t + 1, size, addr)) {
		marks = LOUPE_UNREADABLE;
		size = 0;
	}
	t->size = size;
	t->marks = marks;
	t->length = length;
	n->to->r.flags |= marks;
	n->at = at + sizeof(*t) + ((size + 7) & ~7ull);
}

/* Adds the string at an address: its header is two words. */
INLINE void note_string(struct note *n, u64 addr)
{
	u64 header[2] = {};

	if (addr && read_foreign(header, sizeof(header), addr)) {
		n->to->r.flags |= LOUPE_UNREADABLE;
		header[0] = header[1] = 0;
	}
	note_text(n, header[0], header[1]);
}

INLINE void note_end(struct note *n)
{
	n->to->r.words = (sizeof(n->to->r) + n->at) / 8;
	commit(n->to);
}

/* Reads the current goroutine and begins a note of it. Where that is not possible, the probe returns. */
#define NOTE_OR_RETURN(probe, what, n, gr) SHORT_NOTE_OR_RETURN(probe, what, n, gr, LOUPE_PAYLOAD)

/* The same for a note whose items begin in the first room bytes, a power of two. */
#define SHORT_NOTE_OR_RETURN(probe, what, n, gr, room) NOTE_AFTER_OR_RETURN(probe, what, n, gr, room, (void)0)

/*
 * The same for the note of the end of a request or of a message, by which the span ends: before that, the goroutine leaves it for
 * profilers.
 */
#define END_NOTE_OR_RETURN(probe, what, n, gr, room) NOTE_AFTER_OR_RETURN(probe, what, n, gr, room, identity_ends((gr)->id))

/* What both have in common: before is done when the goroutine is known. */
#define NOTE_AFTER_OR_RETURN(probe, what, n, gr, room, before)                                 \
	do {                                                                                   \
		u32 tid = target_thread();                                                     \
                                                                                               \
		if (!tid || !CALLED(probe))                                                    \
			return 0;                                                              \
		if (!read_any_g(gr, CURRENT_G(probe))) {                                       \
			unreadable(SET(kind));                                                 \
			return 0;                                                              \
		}                                                                              \
		before;                                                                        \
		if (!note_begin_in(n, room, what, tid, (gr)->id, 0))                           \
			return 0;                                                              \
	} while (0)

/*
 * A request of a goroutine begins or ends: while it lasts, the events of the goroutine and of those that it creates are reported,
 * if the session follows requests, and what they allocate is counted, if the session does that.
 */
INLINE void follow_begin(u64 g, u64 goid)
{
	if (CONFIG(allocated))
		allocated_add(goid);
	if (CONFIG(follow))
		list_add(g, goid);
}

INLINE void follow_end(u64 g, u64 goid)
{
	if (CONFIG(allocated))
		allocated_end(goid);
	if (CONFIG(follow))
		list_remove(g, goid);
}

/* A word that need not be readable; 0 if it is not. The note is marked. */
INLINE u64 note_read(struct note *n, u64 addr)
{
	u64 word = 0;

	if (read_foreign(&word, sizeof(word), addr)) {
		n->to->r.flags |= LOUPE_UNREADABLE;
		return 0;
	}
	return word;
}

/*
 * A part of a struct from one offset to another, whose words a probe reads. An eBPF program reads all of it at once, because each read takes as long
 * as the rest of a small probe. Machine code reads the words that are used.
 */
#if HAS_WINDOW
#define PART(name, words) u64 name[words] = {}

/* The same for a large part: it is at the end of a note, which no item has reached yet. The stack of an eBPF program is small. */
#define PART_IN_NOTE(n, name, count)                                                           \
	_Static_assert((count) * 8 <= sizeof(struct loupe_text) + LOUPE_TEXT, "a large part"); \
	struct part_##name {                                                                   \
		u64 words[count];                                                              \
	} *name = (struct part_##name *)((n)->to->payload + LOUPE_PAYLOAD);                    \
	__builtin_memset(name, 0, sizeof(*name))
#define READ_PART(n, name, addr, from, end)                                                    \
	do {                                                                                   \
		u32 size = (end) - (from);                                                     \
                                                                                               \
		if (size > sizeof(name))                                                       \
			size = sizeof(name);                                                   \
		if (read_foreign(name, size, (addr) + (from)))                                 \
			(n)->to->r.flags |= LOUPE_UNREADABLE;                                  \
	} while (0)
#define PART_WORD(n, name, addr, from, end, offset)                                            \
	((offset) - (from) <= sizeof(name) - 8 && (offset) + 8 <= (end) && !(((offset) - (from)) & 7) ? \
		 name[((offset) - (from)) / 8] : note_read(n, (addr) + (offset)))
#else
#define PART(name, words)
#define PART_IN_NOTE(n, name, count)
#define READ_PART(n, name, addr, from, end)
#define PART_WORD(n, name, addr, from, end, offset) note_read(n, (addr) + (offset))
#endif

#endif
