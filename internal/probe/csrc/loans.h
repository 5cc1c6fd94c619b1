/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Lends memory to structures of the program: see struct loupe_loans. */
#ifndef LOUPE_LOANS_H
#define LOUPE_LOANS_H

#include "propagate.h"

#if HAS_CONTEXTS
enum {
	LARGE_LOANS_SIZE = LOUPE_LARGE_LOANS * LOUPE_LARGE_LOAN,
	SMALL_LOANS_SIZE = LOUPE_SMALL_LOANS * LOUPE_SMALL_LOAN,
};

/* Sets a free bit of a word, and returns its number; 64: there is none. */
INLINE u32 claim_bit(u64 *word)
{
	for (u32 i = 0; i < 64; i++) {
		u64 free = ~__atomic_load_n(word, __ATOMIC_RELAXED);
		u32 bit;

		if (!free)
			break;
		bit = __builtin_ctzll(free);
		if (!(__atomic_fetch_or(word, 1ull << bit, __ATOMIC_ACQUIRE) >> bit & 1))
			return bit;
	}
	return 64;
}

/* Whether probes may lend memory. */
INLINE int lends(void) { return native.contexts && native.loans && !__atomic_load_n(&SHARED()->closing, __ATOMIC_RELAXED); }

/* Takes a large loan; 0: there is none. */
INLINE u64 borrow_large(void)
{
	struct loupe_loans *l = (struct loupe_loans *)native.loans;
	u32 bit = lends() ? claim_bit(&l->large) : 64;

	return bit < 64 ? native.loans + LOUPE_LOANS_HEAD + bit * LOUPE_LARGE_LOAN : 0;
}

/* Takes a small loan; 0: there is none. */
FUNCTION u64 borrow_small(void)
{
	struct loupe_loans *l = (struct loupe_loans *)native.loans;
	u32 first;

	if (!lends())
		return 0;
	first = __atomic_load_n(&l->hint, __ATOMIC_RELAXED);
	for (u32 i = 0; i < LOUPE_SMALL_LOANS / 64; i++) {
		u32 at = (first + i) % (LOUPE_SMALL_LOANS / 64), bit = claim_bit(&l->small[at]);

		if (bit == 64)
			continue;
		if (i)
			__atomic_store_n(&l->hint, at, __ATOMIC_RELAXED);
		return native.loans + LOUPE_LOANS_HEAD + LARGE_LOANS_SIZE + (at * 64ull + bit) * LOUPE_SMALL_LOAN;
	}
	return 0;
}

/* Gives a loan back. */
INLINE void give_back_large(u64 loan)
{
	struct loupe_loans *l = (struct loupe_loans *)native.loans;
	u64 n = (loan - native.loans - LOUPE_LOANS_HEAD) / LOUPE_LARGE_LOAN;

	if (n < LOUPE_LARGE_LOANS)
		__atomic_fetch_and(&l->large, ~(1ull << n), __ATOMIC_RELEASE);
}

/* Whether an address is that of a small loan. */
INLINE int is_small_loan(u64 addr)
{
	return native.loans && addr - native.loans - LOUPE_LOANS_HEAD - LARGE_LOANS_SIZE < SMALL_LOANS_SIZE;
}

/* Whether an address is that of a large loan. */
INLINE int is_large_loan(u64 addr)
{
	u64 at = addr - native.loans - LOUPE_LOANS_HEAD;

	return native.loans && at < LARGE_LOANS_SIZE && !(at % LOUPE_LARGE_LOAN);
}

INLINE void give_back_small(u64 loan)
{
	struct loupe_loans *l = (struct loupe_loans *)native.loans;
	u64 n = (loan - native.loans - LOUPE_LOANS_HEAD - LARGE_LOANS_SIZE) / LOUPE_SMALL_LOAN;

	if (n < LOUPE_SMALL_LOANS)
		__atomic_fetch_and(&l->small[n / 64], ~(1ull << n % 64), __ATOMIC_RELEASE);
}

/* Writes a word of memory that was lent, or of the target. */
INLINE void put_word(u64 addr, u64 word) { *(volatile u64 *)addr = word; }

enum {
	HEADER_NAME = 11, /* length of "traceparent" */
	HEADER_TEXT = 72, /* bytes of the name and the value */
};

/* Writes the name and the value of a header to a place that was lent: the value begins after 16 bytes. */
FUNCTION void put_header_text(u64 at, const struct loupe_context *c)
{
	u8 value[TRACEPARENT + 1];

	put_traceparent(value, c);
	put_word(at, KAFKA_TEXT8('t', 'r', 'a', 'c', 'e', 'p', 'a', 'r'));
	put_word(at + 8, KAFKA_TEXT8('e', 'n', 't', 0, 0, 0, 0, 0));
	for (u32 i = 0; i < TRACEPARENT; i++)
		*(volatile u8 *)(at + 16 + i) = value[i];
}

/* Writes a header whose key is a string, and whose text is at an address. */
INLINE void put_header(u64 at, u64 text)
{
	put_word(at, text);
	put_word(at + 8, HEADER_NAME);
	put_word(at + 16, text + 16);
	put_word(at + 24, TRACEPARENT);
	put_word(at + 32, TRACEPARENT);
}

/* What a message carries on beside its traceparent header: the lengths of the values, 0 for none. */
struct states {
	u32 state, baggage;
};

enum {
	STATE_NAME = 10, /* length of "tracestate" */
	BAGGAGE_NAME = 7,
	NAME_ROOM = 16,
	STATE_ROOM = 30, /* bytes that a header takes beside its value, at most */
};

INLINE struct states states_of(const struct loupe_context *c)
{
	return (struct states){carried_length(c->carried, CARRIED_STATE), carried_length(c->carried, CARRIED_BAGGAGE)};
}

/* The bytes that they add to a message, at most. */
INLINE u64 states_bytes(struct states s) { return (s.state ? s.state + STATE_ROOM : 0) + (s.baggage ? s.baggage + STATE_ROOM : 0); }

/* The bytes that their names and values take in a loan. */
INLINE u64 states_texts(struct states s)
{
	return (s.state ? NAME_ROOM + ((s.state + 7) & ~7ull) : 0) + (s.baggage ? NAME_ROOM + ((s.baggage + 7) & ~7ull) : 0);
}

/* Writes a header. A key that is bytes has a capacity. */
INLINE u64 put_named(u64 at, u64 name, u64 name_length, u64 value, u64 length, int bytes)
{
	put_word(at, name);
	put_word(at + 8, name_length);
	if (bytes)
		put_word(at + 16, name_length);
	at += bytes ? 24 : 16;
	put_word(at, value);
	put_word(at + 8, length);
	put_word(at + 16, length);
	return at + 24;
}

/*
 * Writes the headers of what a message carries on to a place in a loan, and their texts to another one. Returns their number. Those whose
 * values have been overwritten are omitted.
 */
FUNCTION u32 put_states(u64 headers, u64 texts, const struct loupe_context *c, const struct states *s, int bytes)
{
	u32 count = 0;

	if (s->state && carried_write(texts + NAME_ROOM, c->carried, CARRIED_STATE, s->state)) {
		put_word(texts, KAFKA_TEXT8('t', 'r', 'a', 'c', 'e', 's', 't', 'a'));
		put_word(texts + 8, KAFKA_TEXT8('t', 'e', 0, 0, 0, 0, 0, 0));
		headers = put_named(headers, texts, STATE_NAME, texts + NAME_ROOM, s->state, bytes);
		texts += NAME_ROOM + ((s->state + 7) & ~7ull);
		count++;
	}
	if (s->baggage && carried_write(texts + NAME_ROOM, c->carried, CARRIED_BAGGAGE, s->baggage)) {
		put_word(texts, KAFKA_TEXT8('b', 'a', 'g', 'g', 'a', 'g', 'e', 0));
		put_named(headers, texts, BAGGAGE_NAME, texts + NAME_ROOM, s->baggage, bytes);
		count++;
	}
	return count;
}

enum { LOAN_STATES = 128 }; /* the headers of a message in a large loan, whose begin is like a small one */

/*
 * Adds what a message carries on to a large loan that begins with its first header. Returns the number of its headers; 1 if the values
 * have been overwritten meanwhile.
 */
INLINE u32 put_headers(u64 loan, const struct loupe_context *c, const struct states *s, int bytes)
{
	u64 size = bytes ? 48 : 40, first = loan + LOAN_STATES;

	for (u32 i = 0; i < size / 8; i++)
		put_word(first + i * 8, *(volatile u64 *)(loan + i * 8));
	return 1 + put_states(first + size, first + 3 * size, c, s, bytes);
}

/*
 * Takes a loan for a message: a large one if it carries something on and there is room for that in the message. If that is not possible,
 * missing is set and s is empty. 0: there is no loan.
 */
FUNCTION u64 borrow_states(struct states *s, const struct loupe_context *c, u64 room, int *missing)
{
	u64 loan = 0;

	*s = states_of(c);
	*missing = 0;
	if (!s->state && !s->baggage)
		return borrow_small();
	if (states_bytes(*s) <= room)
		loan = borrow_large();
	if (loan)
		return loan;
	s->state = s->baggage = 0;
	*missing = CARRIED_MISSING;
	return borrow_small();
}

/* Stores the headers of a loan in a message, given the address of their slice there. */
INLINE void lend_headers(u64 at, u64 loan, const struct loupe_context *c, const struct states *s, int bytes)
{
	u32 count = is_large_loan(loan) ? put_headers(loan, c, s, bytes) : 1;

	put_word(at, is_large_loan(loan) ? loan + LOAN_STATES : loan);
	put_word(at + 16, count);
	put_word(at + 8, count);
}

/* The loan that the headers of a message are in; 0: none. */
INLINE u64 loan_of(u64 headers)
{
	if (is_small_loan(headers))
		return headers;
	return is_large_loan(headers - LOAN_STATES) ? headers - LOAN_STATES : 0;
}

INLINE void give_back(u64 loan)
{
	if (is_large_loan(loan))
		give_back_large(loan);
	else
		give_back_small(loan);
}

_Static_assert(LOAN_STATES + 3 * 48 + 2 * NAME_ROOM + sizeof(((struct loupe_carried *)0)->state) + sizeof(((struct loupe_carried *)0)->baggage) + 16 <=
		       LOUPE_LARGE_LOAN,
	       "a loan is too small");

#define LENDS lends()
#else
#define LENDS 0
#endif
#endif
