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

#define LENDS lends()
#else
#define LENDS 0
#endif
#endif
