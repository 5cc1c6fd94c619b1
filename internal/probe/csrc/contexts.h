/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The contexts (context.Context) that a program passes to operations of libraries. The reader knows the addresses of the contexts of
 * requests that are being served. If an operation is passed one of these, or one that was made from it, it belongs to that request.
 */
#ifndef LOUPE_CONTEXTS_H
#define LOUPE_CONTEXTS_H

#include "set.h"

enum {
	CONTEXTS_MAX = 32,      /* contexts that are searched */
	CONTEXTS_FIRST = 65536, /* lower addresses are none */
};

/* Whether an address is in the heap, which the runtime of 64-bit systems places at 0xc0 << 32. Executables are elsewhere. */
INLINE int probably_heap(u64 addr) { return addr >> 32 >= 0xc0 && addr >> 32 < 0x100; }

/*
 * The context that a context was made from, given the address of its value; 0 if there is none. Each kind of context in package context
 * begins with it, and so do most others: with an interface or, as the timerCtx of Go 1.20 does, with a pointer. Where this is not so, the
 * result has no meaning, and may be any number.
 */
FUNCTION u64 context_above(u64 context)
{
	u64 words[2] = {};

	if (context < CONTEXTS_FIRST || context & 7 || read_foreign(words, sizeof(words), context))
		return 0;
	return probably_heap(words[0]) ? words[0] : words[1];
}

/* A context, and where the next word of a note is. */
struct contexts {
	u64 context, position;
};

/* Adds a context, and goes on to the one that it was made from. Returns 0 if it is none. */
FUNCTION int note_context_of(struct loupe_note *to, struct contexts *c)
{
	if (!to || !c || c->context < CONTEXTS_FIRST || c->context & 7) /* the verifier checks functions by themselves */
		return 0;

	struct note n = {to, c->position, LOUPE_PAYLOAD};

	note_word(&n, c->context);
	c->context = context_above(c->context);
	c->position = n.at;
	return 1;
}

/* Adds the address of the value of a context and those of the contexts that it was made from, innermost first, and then 0. */
INLINE void note_contexts(struct note *n, u64 context)
{
	struct contexts c = {context, n->at};

	for (u32 i = 0; i < CONTEXTS_MAX; i++)
		if (!note_context_of(n->to, &c))
			break;
	n->at = c.position;
	note_word(n, 0);
}

#endif
