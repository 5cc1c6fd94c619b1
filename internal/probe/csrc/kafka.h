/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the sets of clients of Kafka share: they search the headers of messages, and report errors.
 */
#ifndef LOUPE_KAFKA_H
#define LOUPE_KAFKA_H

#include "set.h"

enum {
	KAFKA_HEADERS = 32, /* of a message that are searched */
	KAFKA_PARENT = 55,  /* bytes of a traceparent */

	KAFKA_CUT = 1,        /* the message has more headers */
	KAFKA_UNREADABLE = 2, /* a part of the headers could not be read */

	FIRST_PAGE = 4096,
};

/* The layouts of a slice of headers. A header is a key, which is a string or bytes, and a value, which is bytes. */
enum kafka_layout {
	KAFKA_TEXT_KEYS,
	KAFKA_BYTE_KEYS,
	KAFKA_POINTERS, /* to headers with byte keys */
};

/* The first value of traceparent, and the number of values. */
struct kafka_search {
	u64 value, length;
	u32 count, problems;
};

#define KAFKA_TEXT8(a, b, c, d, e, f, g, h)                                                    \
	((u64)(a) | (u64)(b) << 8 | (u64)(c) << 16 | (u64)(d) << 24 | (u64)(e) << 32 | (u64)(f) << 40 | (u64)(g) << 48 | (u64)(h) << 56)

/* A word that need not be readable; 0 if it is not. */
INLINE u64 peek(u64 addr)
{
	u64 word = 0;

	return addr < FIRST_PAGE || read_foreign(&word, sizeof(word), addr) ? 0 : word;
}

/* The type in the itab of an interface value; 0 for nil. */
INLINE u64 type_in(u64 itab) { return itab ? peek(itab + 8) : 0; }

/* Searches the headers of a message for traceparent. */
FUNCTION int kafka_find(struct kafka_search *s, u64 headers, u64 count, u64 layout)
{
	if (!s) /* the verifier checks functions by themselves */
		return 0;
	s->value = s->length = 0;
	s->count = s->problems = 0;
	if (count > KAFKA_HEADERS) {
		s->problems = KAFKA_CUT;
		count = KAFKA_HEADERS;
	}
	for (u32 i = 0; i < KAFKA_HEADERS; i++) {
		u64 header[6] = {}, at, text = 0;

		if (i >= count)
			break;
		at = layout == KAFKA_POINTERS ? peek(headers + i * 8) : headers + i * (layout == KAFKA_TEXT_KEYS ? 40 : 48);
		if (at < FIRST_PAGE || read_foreign(header, 40, at)) {
			s->problems |= KAFKA_UNREADABLE;
			continue;
		}
		if (header[1] != 11 || read_foreign(&text, 8, header[0]) || text != KAFKA_TEXT8('t', 'r', 'a', 'c', 'e', 'p', 'a', 'r') ||
		    read_foreign(&text, 8, header[0] + 3) || text != KAFKA_TEXT8('c', 'e', 'p', 'a', 'r', 'e', 'n', 't'))
			continue;
		if (!s->count) {
			s->value = layout == KAFKA_TEXT_KEYS ? header[2] : header[3];
			s->length = layout == KAFKA_TEXT_KEYS ? header[3] : header[4];
		}
		s->count++;
	}
	return 0;
}

/* Adds what was found. */
INLINE void note_found(struct note *n, const struct kafka_search *s)
{
	note_word(n, s->count | (u64)s->problems << 32);
	note_text(n, s->value, s->length);
}

/* Adds the key of a message, which is bytes. */
INLINE void note_key(struct note *n, u64 at)
{
	u64 key[2] = {};

	if (read_foreign(key, sizeof(key), at))
		n->to->r.flags |= LOUPE_UNREADABLE;
	note_word(n, key[0] != 0);
	note_text(n, key[0], key[1]);
}

/* Whether two texts of the same length are equal, as far as 256 bytes. */
FUNCTION int same_text(u64 a, u64 b, u64 length)
{
	if (a == b)
		return 1;
	for (u32 i = 0; i < 32; i++) {
		u64 at = i * 8, size = 8, x = 0, y = 0;

		if (at >= length)
			break;
		if (length < 8)
			size = length;
		else if (at + 8 > length)
			at = length - 8;
		OPAQUE(size);
		if (size > 8 || read_foreign(&x, size, a + at) || read_foreign(&y, size, b + at) || x != y)
			return 0;
	}
	return 1;
}

/* Adds the broker if the slice at an address has one alone, and two strings at addresses: the group and the ID of a client. */
INLINE void note_client(struct note *n, u64 brokers_at, u64 group_at, u64 id_at)
{
	u64 brokers[2] = {};

	if (read_foreign(brokers, sizeof(brokers), brokers_at))
		n->to->r.flags |= LOUPE_UNREADABLE;
	note_string(n, brokers[1] == 1 ? brokers[0] : 0);
	note_string(n, group_at);
	note_string(n, id_at);
}

#endif
