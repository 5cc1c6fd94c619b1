/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a request that the program serves has beside its traceparent header, and what the requests that belong to it carry on unchanged:
 * the values of tracestate and baggage. They are in a ring in the shared memory, by a number that contexts have. A value that other ones
 * have overwritten is not sent, and a value that is not valid is not stored.
 */
#ifndef LOUPE_STATE_H
#define LOUPE_STATE_H

#include "set.h"

/* The values of a request: the address and the length of each; 0: none, or not exactly one. */
struct carried {
	u64 state, state_length;
	u64 baggage, baggage_length;
};

/* Which value. */
enum {
	CARRIED_STATE,
	CARRIED_BAGGAGE,
};

#if HAS_CONTEXTS
/* Whether a byte can be in the value of a header. */
INLINE int is_printable(u8 c) { return c >= 0x20 && c < 0x7f; }

/* Whether a byte can be in the key of a member of a tracestate. */
INLINE int is_key(u8 c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '*' || c == '/' || c == '@';
}

/* Whether a text is a list of members KEY=VALUE, as W3C Trace Context requires. Whether keys are unique is not checked. */
FUNCTION int is_state(const u8 *text, u32 length)
{
	u32 members = 0, key = 0, in_value = 0, value = 0;

	for (u32 i = 0; i < length; i++) {
		u8 c = text[i];

		if (c == ',') {
			if (key && (!in_value || !value))
				return 0;
			key = in_value = value = 0;
		} else if (in_value) {
			if (c == '=' || !is_printable(c))
				return 0;
			value++;
		} else if (c == '=') {
			if (!key || ++members > 32)
				return 0;
			in_value = 1;
		} else if (c != ' ' && c != '\t') {
			if (!is_key(c))
				return 0;
			key++;
		} else if (key) {
			return 0;
		}
	}
	return members && (!key || (in_value && value));
}

INLINE struct loupe_carried *carried_at(u64 number)
{
	return (struct loupe_carried *)native.carried + (number & (LOUPE_CARRIED - 1));
}

/* Copies a value of at most size bytes. Returns its length, or 0 if it is too long or not valid. */
INLINE u32 carry(u8 *to, u32 size, u64 at, u64 length)
{
	if (!at || !length || length > size || read_foreign(to, length, at))
		return 0;
	for (u32 i = 0; i < length; i++)
		if (!is_printable(to[i]))
			return 0;
	return length;
}

/* Stores what a request has. Returns its number, or 0 if it has nothing. */
FUNCTION u64 carry_store(const struct carried *from, int with_state)
{
	struct loupe_carried *c;
	u64 number;

	if (!native.carried || !from || !((from->state && with_state) || (from->baggage && native.baggage)))
		return 0;
	number = __atomic_add_fetch(&SHARED()->carried, 1, __ATOMIC_RELAXED);
	c = carried_at(number);
	__atomic_store_n(&c->number, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	c->state_length = with_state ? carry(c->state, sizeof(c->state), from->state, from->state_length) : 0;
	if (c->state_length && !is_state(c->state, c->state_length))
		c->state_length = 0;
	c->baggage_length = native.baggage ? carry(c->baggage, sizeof(c->baggage), from->baggage, from->baggage_length) : 0;
	__atomic_store_n(&c->number, number, __ATOMIC_RELEASE);
	return c->state_length || c->baggage_length ? number : 0;
}

/* The length of a value; 0: there is none, or it has been overwritten. */
INLINE u32 carried_length(u64 number, u32 which)
{
	struct loupe_carried *c = carried_at(number);
	u32 length, limit = which == CARRIED_STATE ? sizeof(c->state) : sizeof(c->baggage);

	if (!number || !native.carried || __atomic_load_n(&c->number, __ATOMIC_ACQUIRE) != number)
		return 0;
	length = which == CARRIED_STATE ? *(volatile u32 *)&c->state_length : *(volatile u32 *)&c->baggage_length;
	return length <= limit ? length : 0;
}

/* Writes a value of a length to memory of the target that nothing refers to yet. Returns whether it is the value. */
FUNCTION int carried_write(u64 to, u64 number, u32 which, u32 length)
{
	struct loupe_carried *c = carried_at(number);
	const u8 *from = which == CARRIED_STATE ? c->state : c->baggage;

	for (u32 i = 0; i < length; i++) {
		u8 byte = *(const volatile u8 *)(from + i);

		if (!is_printable(byte))
			return 0;
		*(volatile u8 *)(to + i) = byte;
	}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&c->number, __ATOMIC_RELAXED) == number;
}
#endif
#endif
