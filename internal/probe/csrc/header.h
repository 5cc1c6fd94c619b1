/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Looks up keys in a Go map of type map[string][]string: the headers of HTTP and the metadata of gRPC. A set that includes this
 * file has the settings that it uses: SETTING_map_swiss and those after it in enum loupe_setting of net/http.
 *
 * The map is searched slot by slot, without its hash function. Its owner may write it at the same time, or it may be corrupt. The
 * search ends in any case, but a value that it finds may be wrong. Maps with more than HEADER_GROUPS groups are not searched to the
 * end; HEADER_CUT is then set.
 */
#ifndef LOUPE_HEADER_H
#define LOUPE_HEADER_H

#include "set.h"

enum {
	HEADER_GROUPS = 16, /* groups of 8 slots that are searched */

	HEADER_CUT = 1,        /* the map has more groups */
	HEADER_UNREADABLE = 2, /* a part of the map could not be read */
};

/* A group of slots in internal/runtime/maps, and a bucket in runtime/map.go before Go 1.24. A slot has a key, which is a string, and a slice. */
enum {
	SLOT = 16 + 24,
	GROUP_SLOTS = 8, /* follows the control word */
	GROUP_SIZE = GROUP_SLOTS + 8 * SLOT,

	BUCKET_KEYS = 8, /* follow the hashes */
	BUCKET_VALUES = BUCKET_KEYS + 8 * 16,
	BUCKET_OVERFLOW = BUCKET_VALUES + 8 * 24,
	BUCKET_SIZE = BUCKET_OVERFLOW + 8,
	SAME_SIZE_GROW = 8, /* hmap.flags */
};

/* The addresses of the first values of the keys that were found; 0: none. */
struct header_search {
	u64 traceparent, agent, tracestate, baggage;
	u32 traceparents; /* number of values; 2: two or more */
	u32 tracestates, baggages;
	u32 problems;
};

#define TEXT8(a, b, c, d, e, f, g, h)                                                          \
	((u64)(a) | (u64)(b) << 8 | (u64)(c) << 16 | (u64)(d) << 24 | (u64)(e) << 32 | (u64)(f) << 40 | (u64)(g) << 48 | (u64)(h) << 56)
#define LOWER TEXT8(0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20)

/* Whether a text of at least 8 bytes begins and ends with 8 lower-case letters each, in any case. Bit 5 of a hyphen is set. */
INLINE int header_text_is(u64 addr, u64 length, u64 first, u64 last)
{
	u64 word = 0;

	if (read_foreign(&word, 8, addr) || (word | LOWER) != first)
		return 0;
	return !read_foreign(&word, 8, addr + length - 8) && (word | LOWER) == last;
}

/* The same for a text of 7 letters. */
INLINE int header_text7_is(u64 addr, u64 text)
{
	u64 word = 0;

	return !read_foreign(&word, 7, addr) && (word | (LOWER >> 8)) == text;
}

#define TRACEPARENT_FIRST TEXT8('t', 'r', 'a', 'c', 'e', 'p', 'a', 'r')
#define TRACEPARENT_LAST TEXT8('c', 'e', 'p', 'a', 'r', 'e', 'n', 't')
#define TRACESTATE_FIRST TEXT8('t', 'r', 'a', 'c', 'e', 's', 't', 'a')
#define TRACESTATE_LAST TEXT8('a', 'c', 'e', 's', 't', 'a', 't', 'e')
#define BAGGAGE TEXT8('b', 'a', 'g', 'g', 'a', 'g', 'e', 0)

/* Looks at one slot. */
FUNCTION int header_slot(struct header_search *s, u64 key_at, u64 value_at)
{
	u64 key[2] = {}, value[2] = {};

	if (!s) /* the verifier checks functions by themselves */
		return 0;
	if (read_foreign(key, sizeof(key), key_at)) {
		s->problems |= HEADER_UNREADABLE;
		return 0;
	}

	int parent = key[1] == 11 && header_text_is(key[0], 11, TRACEPARENT_FIRST, TRACEPARENT_LAST);
	int state = key[1] == 10 && header_text_is(key[0], 10, TRACESTATE_FIRST, TRACESTATE_LAST);
	int baggage = key[1] == 7 && header_text7_is(key[0], BAGGAGE);
	int agent = key[1] == 10 && header_text_is(key[0], 10, TEXT8('u', 's', 'e', 'r', '-', 'a', 'g', 'e'), TEXT8('e', 'r', '-', 'a', 'g', 'e', 'n', 't'));

	if ((!parent && !state && !baggage && !agent) || read_foreign(value, sizeof(value), value_at) || !value[1])
		return 0;
	if (parent) {
		s->traceparent = value[0];
		s->traceparents += value[1] == 1 ? 1 : 2; /* keys of metadata can differ in their case */
	} else if (state) {
		s->tracestate = value[0];
		s->tracestates += value[1] == 1 ? 1 : 2;
	} else if (baggage) {
		s->baggage = value[0];
		s->baggages += value[1] == 1 ? 1 : 2;
	} else {
		s->agent = value[0];
	}
	return 0;
}

/* Looks at the slots whose bytes in full have the highest bit set. */
INLINE void header_slots(struct header_search *s, u64 full, u64 keys, u64 key_size, u64 values, u64 value_size)
{
	for (u32 i = 0; i < 8; i++)
		if (full >> (8 * i) & 0x80)
			header_slot(s, keys + i * key_size, values + i * value_size);
}

/* internal/runtime/maps.Map, with one group or a directory of tables */
INLINE int header_groups(struct header_search *s, u64 map)
{
	u64 head[4] = {}, groups[2] = {}, ctrl = 0, table = 0, last = 0, group = 0, at = 0;

	/* The two words before dirPtr are the number of keys and the seed. */
	if (read_foreign(head, sizeof(head), map + SETTING(map_dir) - 16))
		return HEADER_UNREADABLE;

	u64 directory = head[2], tables = head[3], data = directory, mask = 0;

	if (!head[0] || !data)
		return 0;
	if (tables)
		group = 1; /* after the last group of no table */
	for (u32 i = 0; i < HEADER_GROUPS; i++) {
		if (group > mask) {
			if (at >= tables)
				return 0;
			if (read_foreign(&table, 8, directory + 8 * at))
				return HEADER_UNREADABLE;
			at++;
			if (table == last) /* entries of the directory can have the same table */
				continue;
			last = table;
			if (read_foreign(groups, sizeof(groups), table + SETTING(table_groups)))
				return HEADER_UNREADABLE;
			data = groups[0];
			mask = groups[1];
			group = 0;
		}

		u64 addr = data + group * GROUP_SIZE;

		if (read_foreign(&ctrl, 8, addr))
			return HEADER_UNREADABLE;
		header_slots(s, ~ctrl, addr + GROUP_SLOTS, SLOT, addr + GROUP_SLOTS + 16, SLOT);
		group++;
	}
	return group > mask && at >= tables ? 0 : HEADER_CUT;
}

/* runtime.hmap: buckets with overflow buckets, and those that have not been moved yet while the map grows */
INLINE int header_buckets(struct header_search *s, u64 map)
{
	u64 head = 0, buckets[2] = {}, top = 0, bucket = 0, at = 0, count;

	if (read_foreign(&head, 8, map + SETTING(hmap_flags)) || read_foreign(buckets, sizeof(buckets), map + SETTING(hmap_buckets)))
		return HEADER_UNREADABLE;
	if (!buckets[0])
		return 0;
	count = 1ull << (head >> 8 & 31);

	u64 from = buckets[0], old = buckets[1];

	for (u32 i = 0; i < HEADER_GROUPS; i++) {
		if (!bucket) {
			if (at >= count) {
				if (!old)
					return 0;
				from = old;
				if (!(head & SAME_SIZE_GROW))
					count >>= 1;
				at = 0;
				old = 0;
			}
			bucket = from + at * BUCKET_SIZE;
			at++;
		}
		if (read_foreign(&top, 8, bucket))
			return HEADER_UNREADABLE;

		/* Hashes are at least 5. Smaller numbers mark slots that are free or have been moved. */
		u64 full = (top & ~0x8080808080808080ull) + 0x7b7b7b7b7b7b7b7bull;

		header_slots(s, full | top, bucket + BUCKET_KEYS, 16, bucket + BUCKET_VALUES, 24);
		if (read_foreign(&bucket, 8, bucket + BUCKET_OVERFLOW))
			return HEADER_UNREADABLE;
	}
	return !bucket && at >= count && !old ? 0 : HEADER_CUT;
}

FUNCTION int header_find(struct header_search *s, u64 map)
{
	if (!s)
		return 0;
	s->traceparent = s->agent = s->tracestate = s->baggage = 0;
	s->traceparents = s->tracestates = s->baggages = s->problems = 0;
	if (map)
		s->problems |= SETTING(map_swiss) ? header_groups(s, map) : header_buckets(s, map);
	return 0;
}

#endif
