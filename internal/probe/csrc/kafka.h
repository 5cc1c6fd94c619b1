/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the sets of clients of Kafka share: they search the headers of messages, and report errors.
 */
#ifndef LOUPE_KAFKA_H
#define LOUPE_KAFKA_H

#include "propagate.h"

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
	u32 states, baggages; /* the numbers of values of tracestate and of baggage, */
	u64 state, baggage;   /* and the addresses of the first ones: each is an address and a length */
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

/* The headers that are searched for. */
enum {
	KAFKA_TRACEPARENT = 1,
	KAFKA_TRACESTATE,
	KAFKA_BAGGAGE,
};

/* Which of them has a name; 0: none. */
INLINE int kafka_name(u64 name, u64 length)
{
	u64 first = 0, last = 0;

	if ((length != 11 && length != 10 && length != 7) || read_foreign(&first, 7, name) || read_foreign(&last, 7, name + length - 7))
		return 0;
	if (length == 7 && first == KAFKA_TEXT8('b', 'a', 'g', 'g', 'a', 'g', 'e', 0))
		return KAFKA_BAGGAGE;
	if (first != KAFKA_TEXT8('t', 'r', 'a', 'c', 'e', 'p', 'a', 0) && first != KAFKA_TEXT8('t', 'r', 'a', 'c', 'e', 's', 't', 0))
		return 0;
	if (length == 11 && last == KAFKA_TEXT8('e', 'p', 'a', 'r', 'e', 'n', 't', 0))
		return KAFKA_TRACEPARENT;
	return length == 10 && last == KAFKA_TEXT8('c', 'e', 's', 't', 'a', 't', 'e', 0) ? KAFKA_TRACESTATE : 0;
}

/* Searches the headers of a message for traceparent, tracestate and baggage. */
FUNCTION int kafka_find(struct kafka_search *s, u64 headers, u64 count, u64 layout)
{
	if (!s) /* the verifier checks functions by themselves */
		return 0;
	s->value = s->length = s->state = s->baggage = 0;
	s->count = s->problems = s->states = s->baggages = 0;
	if (count > KAFKA_HEADERS) {
		s->problems = KAFKA_CUT;
		count = KAFKA_HEADERS;
	}
	for (u32 i = 0; i < KAFKA_HEADERS; i++) {
		u64 header[6] = {}, at, value;

		if (i >= count)
			break;
		at = layout == KAFKA_POINTERS ? peek(headers + i * 8) : headers + i * (layout == KAFKA_TEXT_KEYS ? 40 : 48);
		if (at < FIRST_PAGE || read_foreign(header, 40, at)) {
			s->problems |= KAFKA_UNREADABLE;
			continue;
		}
		value = at + (layout == KAFKA_TEXT_KEYS ? 16 : 24);
		switch (kafka_name(header[0], header[1])) {
		case KAFKA_TRACEPARENT:
			if (!s->count++) {
				s->value = layout == KAFKA_TEXT_KEYS ? header[2] : header[3];
				s->length = layout == KAFKA_TEXT_KEYS ? header[3] : header[4];
			}
			break;
		case KAFKA_TRACESTATE:
			if (!s->states++)
				s->state = value;
			break;
		case KAFKA_BAGGAGE:
			if (!s->baggages++)
				s->baggage = value;
			break;
		}
	}
	return 0;
}

/* Adds what was found. */
INLINE void note_found(struct note *n, const struct kafka_search *s)
{
	note_word(n, s->count | (u64)s->problems << 32);
	note_text(n, s->value, s->length);
}

/* Adds the context of a message that a goroutine has received, given its headers. It is the first item of the note. */
INLINE void kafka_receive(struct note *n, struct loupe_context *to, u64 goid, const struct kafka_search *s)
{
	u64 parent = s->count == 1 ? s->value : 0;
#if HAS_CONTEXTS
	struct carried carried = {};

	if (s->states == 1 && read_foreign(&carried.state, 16, s->state))
		carried.state = 0;
	if (s->baggages == 1 && read_foreign(&carried.baggage, 16, s->baggage))
		carried.baggage = 0;
	context_receive(to, goid, parent, s->length, &carried, 0);
	note_context(n, to);
#else
	NOTE_RECEIVED(n, to, goid, parent, s->length);
#endif
}

/* Adds what was found beside the traceparent header. */
INLINE void note_states(struct note *n, const struct loupe_context *c, const struct kafka_search *s)
{
	note_carried(n, c, s->states, s->baggages, s->state);
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
