/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The contexts of spans, for sets whose requests carry them in headers (W3C Trace Context). The context must be known when a request
 * is written, so the probes choose the IDs of these spans, and the Go half uses the same ones.
 *
 * Only probes in machine code do that. They change only memory that belongs to the library, at a moment when the current goroutine
 * owns it. eBPF programs change nothing in the target, and the Go half then chooses the IDs, except for those of identity.h.
 */
#ifndef LOUPE_PROPAGATE_H
#define LOUPE_PROPAGATE_H

#include "state.h"
#include "contexts.h"

enum {
	TRACEPARENT = 55, /* length of a value: 00-<32>-<16>-<2> */
};

/* Adds a context to a note: zeros if there is none. */
INLINE void note_context(struct note *n, const struct loupe_context *c)
{
	note_word(n, c->trace[0]);
	note_word(n, c->trace[1]);
	note_word(n, c->span);
	note_word(n, c->flags);
}

/* Flags of a note about what a request has. */
enum {
	STATE_STORED = 1,
	BAGGAGE_STORED = 2,
	BAGGAGE_WANTED = 4,
	STATES_SHIFT = 8, /* the numbers of values */
	BAGGAGES_SHIFT = 16,
	MANY_VALUES = 0xff,
};

/* The other reasons of a note that a request has no header are those of its set. */
enum {
	CARRIED_MISSING = 16, /* it has a header, but not all that it was to carry on */
};

/* Adds what a request has beside its traceparent header, given the numbers of values and the address of the first tracestate. */
INLINE void note_carried(struct note *n, const struct loupe_context *c, u32 states, u32 baggages, u64 tracestate)
{
	u64 flags = (u64)(states > MANY_VALUES ? MANY_VALUES : states) << STATES_SHIFT | (u64)(baggages > MANY_VALUES ? MANY_VALUES : baggages) << BAGGAGES_SHIFT;

#if HAS_CONTEXTS
	flags |= (carried_length(c->carried, CARRIED_STATE) ? STATE_STORED : 0) | (carried_length(c->carried, CARRIED_BAGGAGE) ? BAGGAGE_STORED : 0) |
		 (native.baggage ? BAGGAGE_WANTED : 0);
#else
	flags |= STATE_STORED; /* nothing is to be carried on */
#endif
	note_word(n, flags);
	note_string(n, tracestate);
}

#if HAS_CONTEXTS
#define PROPAGATES (native.contexts != 0)

INLINE u64 scramble(u64 x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* A new ID. Each hit has another combination of lane, turn and time; salt differs between the IDs of one hit. */
INLINE u64 new_id(u64 salt)
{
	struct loupe_lane *l = lane();
	u64 id = scramble(scramble(scramble(native.seed + l->stamp) + (u64)l) + ((u64)l->turns << 2 | salt));

	return id ? id : 1;
}

INLINE u64 sampled(const u64 *trace)
{
	return trace[1] >> 1 < native.sample_bound ? LOUPE_SAMPLED : 0;
}

/* Parses lower-case hexadecimal digits. Returns whether they are valid. */
FUNCTION int parse_hex(u64 *to, const u8 *from, u32 digits)
{
	u64 value = 0;

	for (u32 i = 0; i < digits; i++) {
		u8 c = from[i];

		if (c >= '0' && c <= '9')
			c -= '0';
		else if (c >= 'a' && c <= 'f')
			c -= 'a' - 10;
		else
			return 0;
		value = value << 4 | c;
	}
	*to = value;
	return 1;
}

/* Parses the value of a traceparent header as join.ParseTraceparent does. Returns whether it is valid. */
FUNCTION int parse_traceparent(struct loupe_context *to, u64 at, u64 length)
{
	u64 version = 0, flags = 0;
	u8 text[TRACEPARENT + 1] = {};

	if (length < TRACEPARENT || length >> 47 || read_foreign(text, length > TRACEPARENT ? TRACEPARENT + 1 : TRACEPARENT, at))
		return 0;
	if (text[2] != '-' || text[35] != '-' || text[52] != '-' || !parse_hex(&version, text, 2) || !parse_hex(&to->trace[0], text + 3, 16) ||
	    !parse_hex(&to->trace[1], text + 19, 16) || !parse_hex(&to->span, text + 36, 16) || !parse_hex(&flags, text + 53, 2))
		return 0;
	to->flags = flags & LOUPE_SAMPLED;
	if (version == 0xff || (length > TRACEPARENT && (!version || text[TRACEPARENT] != '-')))
		return 0;
	return (to->trace[0] | to->trace[1]) && to->span;
}

INLINE u8 *put_hex(u8 *to, u64 value, u32 digits)
{
	while (digits--) {
		u8 c = value >> (4 * digits) & 15;

		*to++ = c < 10 ? '0' + c : 'a' - 10 + c;
	}
	return to;
}

/* Writes the value of a traceparent header: TRACEPARENT bytes. */
FUNCTION void put_traceparent(u8 *to, const struct loupe_context *c)
{
	to = put_hex(to, 0, 2);
	*to++ = '-';
	to = put_hex(put_hex(to, c->trace[0], 16), c->trace[1], 16);
	*to++ = '-';
	to = put_hex(to, c->span, 16);
	*to++ = '-';
	put_hex(to, c->flags & LOUPE_SAMPLED, 2);
}

INLINE void copy_context(struct loupe_context *to, const struct loupe_context *from, u64 flags)
{
	to->trace[0] = from->trace[0];
	to->trace[1] = from->trace[1];
	to->span = from->span;
	to->flags = flags;
	to->carried = from->carried;
}

INLINE void no_context(struct loupe_context *to)
{
	to->trace[0] = to->trace[1] = to->span = to->flags = to->carried = 0;
}

/*
 * The context of a request that a goroutine begins to serve, or of a message that it has received, given the value of its only traceparent
 * header; 0: none. passed is the address of the context.Context by which the program passes the request on, or 0.
 */
FUNCTION void context_receive(struct loupe_context *to, u64 goid, u64 traceparent, u64 length, const struct carried *carried, u64 passed)
{
	struct loupe_context parent, *scope, *other;
	int continued = 0;

	no_context(to);
	if (!native.contexts)
		return;
	scope = context_find(context_key(goid, CONTEXT_SCOPE), 0);
	if (scope && passed && scope->about == (passed | CONTEXT_PASSED)) { /* the same request, passed on by another server */
		copy_context(to, scope, scope->flags);
		return;
	}
	if (traceparent && parse_traceparent(&parent, traceparent, length)) {
		to->trace[0] = parent.trace[0];
		to->trace[1] = parent.trace[1];
		to->flags = native.sample_parent ? parent.flags : sampled(to->trace);
		continued = 1;
	} else {
		to->trace[0] = new_id(1);
		to->trace[1] = new_id(2);
		to->flags = sampled(to->trace);
	}
	to->span = new_id(3);
	to->carried = carry_store(carried, continued);
	scope = context_find(context_key(goid, CONTEXT_SCOPE), 1);
	if (!scope)
		return;
	if (scope->about)
		context_take(scope->about, 0);
	scope->about = passed | CONTEXT_PASSED; /* not 0: the reader does not remove it (Region.Disown) */
	copy_context(scope, to, to->flags);
	other = passed ? context_find(scope->about, 1) : 0;
	if (other)
		copy_context(other, to, to->flags);
}

/* The request that a program has passed by a context.Context; 0 if there is none. */
FUNCTION struct loupe_context *context_passed(u64 passed)
{
	for (u32 i = 0; i < CONTEXTS_MAX && passed >= CONTEXTS_FIRST && !(passed & 7); i++) {
		struct loupe_context *c = context_find(passed | CONTEXT_PASSED, 0);

		if (c)
			return c;
		passed = context_above(passed);
	}
	return 0;
}

/* The context of a request that a goroutine begins to serve, given the addresses of the strings with the values of its headers; 0: none. */
FUNCTION void context_serve(struct loupe_context *to, u64 goid, u64 traceparent, u64 tracestate, u64 baggage, u64 passed)
{
	u64 header[2] = {};
	struct carried carried = {};

	if (traceparent && read_foreign(header, sizeof(header), traceparent))
		header[0] = 0;
	if (tracestate && read_foreign(&carried.state, 16, tracestate))
		carried.state = 0;
	if (baggage && read_foreign(&carried.baggage, 16, baggage))
		carried.baggage = 0;
	context_receive(to, goid, header[0], header[1], &carried, passed);
}

/* Stores a context by the address of the request that it belongs to. */
FUNCTION void context_about(const struct loupe_context *c, u64 about)
{
	struct loupe_context *other = about ? context_find(about, 1) : 0;

	if (!other)
		return;
	copy_context(other, c, c->flags & ~LOUPE_SILENT);
	other->about = lane()->stamp;
}

enum {
	CONTEXT_OWN = 5, /* the span that the program itself makes of the request which the goroutine sends: see set otelsdk */
};

/*
 * The context of a request that begins on a goroutine. own are flags of what it has itself: LOUPE_SILENT if it gets no header,
 * LOUPE_OWN_STATE, and LOUPE_OWN_BAGGAGE. passed is the address of its context.Context, or 0.
 */
FUNCTION void context_new(struct loupe_context *to, u64 goid, int own, u64 passed)
{
	struct loupe_context *scope = context_passed(passed), *made = context_find(context_key(goid, CONTEXT_OWN), 0);
	u64 carried;

	if (!scope)
		scope = context_find(context_key(goid, CONTEXT_SCOPE), 0);
	carried = scope ? scope->carried : 0;
	if (made && made->span && !(own & LOUPE_SILENT)) {
		copy_context(to, made, (made->flags & LOUPE_SAMPLED) | own);
		to->carried = carried;
		return;
	}
	to->carried = carried;
	if (scope) {
		to->trace[0] = scope->trace[0];
		to->trace[1] = scope->trace[1];
		to->flags = native.sample_parent ? scope->flags : sampled(to->trace);
	} else {
		to->trace[0] = new_id(1);
		to->trace[1] = new_id(2);
		to->flags = sampled(to->trace);
	}
	to->span = new_id(3);
	to->flags |= own;
}

/*
 * The context of a request that a goroutine begins to send. It is stored as that of the goroutine and, unless the request gets no header,
 * as that of about if this is not 0. passed is the address of its context.Context, or 0.
 */
FUNCTION void context_send(struct loupe_context *to, u64 goid, u64 about, int own, u64 passed)
{
	struct loupe_context *call;

	no_context(to);
	if (!native.contexts)
		return;
	context_end_call(goid);
	context_new(to, goid, own, passed);
	call = context_find(context_key(goid, CONTEXT_CALL), 1);
	if (!call)
		return;
	copy_context(call, to, to->flags);
	if (own & LOUPE_SILENT)
		return;
	call->about = about;
	context_about(call, about);
}

/*
 * The same for a request that goes on by HTTP/2, and then is that of about: it has the context that it began with, unless it begins now,
 * because there was a connection for it. It may end on another goroutine, so it is not stored as that of this one.
 */
FUNCTION void context_send_http2(struct loupe_context *to, u64 goid, u64 about, int own, u64 passed)
{
	no_context(to);
	if (!native.contexts)
		return;
	if (!context_take(context_key(goid, CONTEXT_CALL), to))
		context_new(to, goid, own, passed);
	else if (to->about)
		context_take(to->about, 0);
	if (!((own | to->flags) & LOUPE_SILENT))
		context_about(to, about);
}

/*
 * The context of a message that a goroutine begins to send. Unless the message gets no header, it is stored as that of about. Another
 * goroutine may end it, so it is not stored as that of this one.
 */
FUNCTION void context_post(struct loupe_context *to, u64 goid, u64 about, int own, u64 passed)
{
	no_context(to);
	if (!native.contexts)
		return;
	context_new(to, goid, own, passed);
	if (!(own & LOUPE_SILENT))
		context_about(to, about);
}

/* Whether memory belongs to the target's heap, so that it can be written. */
INLINE int heap_memory(u64 addr, u64 size)
{
	return addr >= 0x10000 && addr < USER_END - size && in_heap(addr, size);
}

/* Adds the context of a request that a goroutine begins to serve. */
#define NOTE_SERVED(n, context, goid, traceparent, tracestate, baggage, passed)                \
	do {                                                                                   \
		context_serve(context, goid, traceparent, tracestate, baggage, passed);        \
		note_context(n, context);                                                      \
	} while (0)

#else
#define PROPAGATES 0

INLINE void note_no_context(struct note *n)
{
	for (u32 i = 0; i < 4; i++)
		note_word(n, 0);
}

/*
 * Parses hexadecimal digits. invalid is set if they are not valid. Nothing depends on a digit by a branch: the verifier would check each
 * combination.
 */
INLINE u64 parse_digits(const u8 *text, u32 digits, u64 *invalid)
{
	u64 value = 0;

#pragma clang loop unroll(disable)
	for (u32 i = 0; i < digits; i++) {
		u64 digit = (u8)(text[i] - '0'), letter = (u8)(text[i] - 'a');
		u64 is_digit = (digit - 10) >> 63, is_letter = (letter - 6) >> 63;

		OPAQUE(is_digit);
		OPAQUE(is_letter);
		value = value << 4 | ((digit & -is_digit) | ((letter + 10) & -is_letter));
		*invalid |= 1 ^ (is_digit | is_letter);
	}
	return value;
}

/*
 * How the identity of the span of a request is chosen: see context_receive. It is the first item of a note, which has zeros there. Before the
 * other items are written, their memory is used instead of the stack, which has no room in the functions that call these. For the same
 * reason these do not call each other.
 */
struct identity_note {
	u64 trace[2], span, flags;
	u8 text[TRACEPARENT + 1];
};

_Static_assert(sizeof(struct identity_note) <= LOUPE_PAYLOAD, "no room for a header");

/*
 * Reads the value of a traceparent header into the item: the IDs of the parent. They are 0 if it is not valid, as join.ParseTraceparent
 * defines that.
 */
FUNCTION int identity_parent(struct loupe_note *to, u64 at, u64 length)
{
	u64 invalid = 0, version, trace[2], span;
	struct identity_note *n;

	if (!to || !at || length < TRACEPARENT || length >> 47)
		return 0;
	n = (struct identity_note *)to->payload;
	if (read_foreign(n->text, TRACEPARENT, at) || (length > TRACEPARENT && read_foreign(n->text + TRACEPARENT, 1, at + TRACEPARENT)))
		return 0;
	version = parse_digits(n->text, 2, &invalid);
	trace[0] = parse_digits(n->text + 3, 16, &invalid);
	trace[1] = parse_digits(n->text + 19, 16, &invalid);
	span = parse_digits(n->text + 36, 16, &invalid);
	parse_digits(n->text + 53, 2, &invalid);
	if (invalid || n->text[2] != '-' || n->text[35] != '-' || n->text[52] != '-' || version == 0xff ||
	    (length > TRACEPARENT && (!version || n->text[TRACEPARENT] != '-')))
		return 0;
	if (!(trace[0] | trace[1]) || !span)
		return 0;
	n->trace[0] = trace[0];
	n->trace[1] = trace[1];
	n->span = span;
	return 0;
}

/* The same, given the address of the string with the value. */
FUNCTION int identity_parent_at(struct loupe_note *to, u64 addr)
{
	u64 header[2] = {};

	if (!to || !addr || read_foreign(header, sizeof(header), addr))
		return 0;
	return identity_parent(to, header[0], header[1]);
}

/* Ends what a goroutine has belonged to, unless it is the same request, passed on by another server. */
FUNCTION int identity_leave(u64 goid, u64 passed)
{
	struct loupe_identity *old = bpf_map_lookup_elem(&identities, &goid);

	if (old && !(passed && old->about == passed && !old->owner))
		identity_end(goid);
	return 0;
}

/* Chooses the identity, given the IDs of the parent, and begins it. */
FUNCTION int identity_begin(struct loupe_note *to, u64 goid, u64 passed)
{
	struct loupe_identity *old = bpf_map_lookup_elem(&identities, &goid), own = {};
	struct identity_note *n;

	if (!to)
		return 0;
	n = (struct identity_note *)to->payload;
	if (old) {
		n->trace[0] = __builtin_bswap64(old->ids.trace[0]);
		n->trace[1] = __builtin_bswap64(old->ids.trace[1]);
		n->span = __builtin_bswap64(old->ids.span);
		return 0;
	}
	own.parent = __builtin_bswap64(n->span);
	if (!own.parent) {
		n->trace[0] = random_word();
		n->trace[1] = random_word();
	}
	n->span = random_word();
	own.ids.trace[0] = __builtin_bswap64(n->trace[0]);
	own.ids.trace[1] = __builtin_bswap64(n->trace[1]);
	own.ids.span = __builtin_bswap64(n->span);
	own.about = passed;
	own.set = SET(kind) & (OWN_SETS - 1);
	if (!is_listed(goid)) /* there was no room */
		return 0;
	if (bpf_map_update_elem(&identities, &goid, &own, BPF_ANY))
		__sync_fetch_and_add(&control.unlisted, 1);
	else if (!target.own[own.set & (OWN_SETS - 1)])
		thread_enters(bpf_get_current_pid_tgid(), &own.ids);
	return 0;
}

INLINE void identity_serve(struct loupe_note *to, u64 goid, u64 passed)
{
	identity_leave(goid, passed);
	identity_begin(to, goid, passed);
}

/* Adds the context of a request or of a message, as the first item of a note. goid is 0 for an operation that is neither. */
#define NOTE_SERVED(n, context, goid, traceparent, tracestate, baggage, passed)                \
	do {                                                                                   \
		u64 server = goid;                                                             \
                                                                                               \
		(void)(context);                                                               \
		note_no_context(n);                                                            \
		if (identify && server) {                                                      \
			identity_parent_at((n)->to, traceparent);                              \
			identity_serve((n)->to, server, passed);                               \
		}                                                                              \
	} while (0)
#define NOTE_RECEIVED(n, context, goid, traceparent, length)                                   \
	do {                                                                                   \
		(void)(context);                                                               \
		note_no_context(n);                                                            \
		if (identify) {                                                                \
			identity_parent((n)->to, traceparent, length);                         \
			identity_serve((n)->to, goid, 0);                                      \
		}                                                                              \
	} while (0)

INLINE void context_send(struct loupe_context *to, u64 goid, u64 about, int own, u64 passed)
{
	to->trace[0] = to->trace[1] = to->span = to->flags = 0;
}

INLINE void context_post(struct loupe_context *to, u64 goid, u64 about, int own, u64 passed)
{
	context_send(to, goid, about, own, passed);
}

INLINE void context_send_http2(struct loupe_context *to, u64 goid, u64 about, int own, u64 passed)
{
	context_send(to, goid, about, own, passed);
}

#endif
#endif
