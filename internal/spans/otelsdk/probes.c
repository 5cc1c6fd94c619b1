//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Spans that a program makes and exports itself, by the SDK of OpenTelemetry. The Go half is in decode.go, which reads the notes in the
 * same order.
 */
enum loupe_probe {
	PROBE_begin,
	PROBE_begun,
	PROBE_end,
	PROBE_COUNT,
};

/* Offsets of fields. */
enum loupe_setting {
	SETTING_tracer_name,
	SETTING_tracer_provider,
	SETTING_provider_processors,
	SETTING_processors_value, /* 1: the processors are in an atomic.Value, before v1.13.0; 0: in an atomic.Pointer */
	SETTING_config_attributes,
	SETTING_config_kind,
	SETTING_span_context,
	SETTING_span_parent,
	SETTING_span_kind,
	SETTING_span_attributes,
	SETTING_attributes_slice, /* 1: the attributes are in a slice; 0: in a map, before v1.4.0 */
	SETTING_other_context, /* of a span that is not recorded */
	SETTING_context_trace,
	SETTING_context_span,
	SETTING_context_flags,
	SETTING_context_remote,
	SETTING_COUNT,
};

enum loupe_table_id {
	TABLE_COUNT,
};

#include "propagate.h"

/* Kinds of notes. */
enum {
	BEGIN,
	BEGUN,
	END,
};

enum {
	MAX_KEYS = 12, /* attributes whose keys are read */
	KEY_VALUE = 64, /* size of an attribute.KeyValue, which begins with the key */

	/* abi.Type.Kind_ is the highest byte of the third word. */
	KIND_POINTER = 22,

	/* trace.SpanKind */
	SERVER = 2,
	CLIENT = 3,
	PRODUCER = 4,
	CONSUMER = 5,
};

/* Adds a text and its address. The Go half reads constants that the program has not accessed yet, so those are no problem of the note. */
INLINE void note_reference(struct note *n, u64 addr, u64 length)
{
	u16 flags = n->to->r.flags;

	note_word(n, addr);
	note_text(n, addr, length);
	n->to->r.flags = (n->to->r.flags & ~LOUPE_UNREADABLE) | flags;
}

/* The next key of a list of attributes, and where the next word of the note is. sends is set by a key of a request that has a header. */
struct keys {
	u64 at, left, position, sends;
};

#if HAS_CONTEXTS
/* Whether the first bytes of a key are those of an HTTP request, an RPC or a message. */
INLINE int of_request(u64 first)
{
	const u64 bytes4 = 0xffffffff, bytes5 = 0xffffffffff;

	return (first & bytes5) == 0x2e70747468 /* http. */ || (first & bytes4) == 0x2e6c7275 /* url. */ || (first & bytes4) == 0x2e637072 /* rpc. */ ||
	       first == 0x6e6967617373656d /* messagin */;
}

/* Whether the last bytes of the name of a tracer are those of instrumentation whose spans have no attributes at first. */
INLINE int traces_requests(u64 name, u64 length)
{
	u64 last = 0;

	if (length < sizeof(last) || length >> 32 || read_foreign(&last, sizeof(last), name + length - sizeof(last)))
		return 0;
	return last == 0x707474686c65746f /* otelhttp */ || last == 0x637072676c65746f /* otelgrpc */ || last == 0x616d617261736c65 /* elsarama */ ||
	       last >> 24 == 0x6c65746f6b /* kotel */;
}
#endif

/* Adds the first bytes of a key, or its address if they cannot be read: two words. */
FUNCTION int note_key(struct loupe_note *to, struct keys *k)
{
	u64 key[2] = {}, first = 0;

	if (!to || !k)
		return 0;

	struct note n = {to, k->position, LOUPE_PAYLOAD};

	if (k->left && !read_foreign(key, sizeof(key), k->at) && key[1] >= sizeof(first) && !(key[1] >> 32) && read_foreign(&first, sizeof(first), key[0]))
		first = 0;
#if HAS_CONTEXTS
	k->sends |= of_request(first);
#endif
	note_word(&n, first);
	note_word(&n, first || key[1] < sizeof(first) ? 0 : key[0]);
	k->at += KEY_VALUE;
	k->left -= k->left ? 1 : 0;
	k->position = n.at;
	return 0;
}

/* Adds the keys of a list of attributes. */
INLINE void note_keys(struct note *n, struct keys *k)
{
	k->position = n->at;
	k->sends = 0;
	for (u32 i = 0; i < MAX_KEYS; i++)
		note_key(n->to, k);
	n->at = k->position;
}

/* The number of span processors of the tracer's provider: without any, nobody exports the span. 1 if it is not known. */
INLINE u64 processors(u64 tracer)
{
	u64 provider = 0, at = 0, slice[2] = {};

	if (read_foreign(&provider, sizeof(provider), tracer + SETTING(tracer_provider)) || !provider ||
	    read_foreign(&at, sizeof(at), provider + SETTING(provider_processors) + (SETTING(processors_value) ? 8 : 0)))
		return 1;
	if (!at)
		return 0;
	return read_foreign(slice, sizeof(slice), at) ? 1 : slice[1];
}

/* The IDs of a span context, as they are in memory. */
struct ids {
	u64 trace[2], span, flags;
};

enum {
	FLAG_REMOTE = 1 << 8,
};

#if HAS_CONTEXTS
INLINE void copy_ids(struct loupe_context *to, const struct ids *from)
{
	to->trace[0] = __builtin_bswap64(from->trace[0]);
	to->trace[1] = __builtin_bswap64(from->trace[1]);
	to->span = __builtin_bswap64(from->span);
	to->flags = from->flags & LOUPE_SAMPLED;
}
#endif

/* A span of the program begins. Until it ends, requests that a goroutine sends have its context, if it is a client span of one. */
INLINE void own_begins(u64 goid, u64 kind, int sends)
{
#if HAS_CONTEXTS
	if (!native.contexts)
		return;
	context_take(context_key(goid, CONTEXT_OWN), 0);
	if (sends) {
		struct loupe_context *own = context_find(context_key(goid, CONTEXT_OWN), 1);

		if (own)
			own->span = 0; /* until it is known */
	}
#else
	if (identify)
		identity_own_begins(goid, kind == SERVER ? OWN_SERVER : kind == CONSUMER ? OWN_CONSUMER : OWN_NONE);
#endif
}

/* The span has a context. span is its address, or 0 if its end is not reported. */
INLINE void own_begun(u64 goid, u64 span, const struct ids *ids, const struct ids *parent)
{
#if HAS_CONTEXTS
	struct loupe_context *scope, *passed, *own, *end;

	if (!native.contexts || !ids->span)
		return;
	scope = context_find(context_key(goid, CONTEXT_SCOPE), 1);
	passed = scope && scope->about ? context_find(scope->about, 0) : 0; /* by a context.Context that is derived from that of the request */
	if (scope)
		copy_ids(scope, ids);
	if (passed)
		copy_ids(passed, ids);
	own = context_find(context_key(goid, CONTEXT_OWN), 0);
	end = own && span ? context_find(span, 1) : 0;
	if (end) {
		struct loupe_context *call = context_find(context_key(goid, CONTEXT_CALL), 0); /* gRPC calls the program after it has begun a call */

		if (call) {
			u64 flags = call->flags & ~(u64)LOUPE_SAMPLED;

			copy_ids(call, ids);
			call->flags |= flags;
		}
		copy_ids(own, ids);
		copy_ids(end, ids);
		end->trace[0] = goid;
		end->about = lane()->stamp;
	} else if (own) {
		context_take(context_key(goid, CONTEXT_OWN), 0);
	}
#else
	struct traces_ctx own = {{ids->trace[0], ids->trace[1]}, ids->span};

	if (identify && ids->span)
		identity_own_begun(goid, &own, parent->span);
#endif
}

/* The span ends, on any goroutine. */
INLINE void own_ends(u64 span)
{
#if HAS_CONTEXTS
	struct loupe_context end, *own;

	if (!native.contexts || !context_take(span, &end))
		return;
	own = context_find(context_key(end.trace[0], CONTEXT_OWN), 0);
	if (own && own->span == end.span)
		context_take(context_key(end.trace[0], CONTEXT_OWN), 0);
#endif
}

/* func (tr *tracer) newSpan(ctx context.Context, name string, config *trace.SpanConfig) trace.Span */
PROBE(begin)
{
	u64 attributes[2] = {}, scope[2] = {}, kind = 0;
	struct goroutine gr;
	struct keys k;
	struct note n;

	NOTE_OR_RETURN(begin, BEGIN, &n, &gr);
	follow_begin(gr.g, gr.id); /* until Tracker.Release */

	u64 tracer = ARG(begin, 0, 0), config = ARG(begin, 5, 40);

	if (read_foreign(&kind, sizeof(kind), config + SETTING(config_kind)) || read_foreign(attributes, sizeof(attributes), config + SETTING(config_attributes)) ||
	    read_foreign(scope, sizeof(scope), tracer + SETTING(tracer_name)))
		n.to->r.flags |= LOUPE_UNREADABLE;
	note_word(&n, kind);
	note_word(&n, processors(tracer));
	note_reference(&n, ARG(begin, 3, 24), ARG(begin, 4, 32));
	note_reference(&n, scope[0], scope[1]);
	k.at = attributes[0];
	k.left = attributes[1];
	note_keys(&n, &k);
	note_end(&n);
#if HAS_CONTEXTS
	own_begins(gr.id, kind, kind == CLIENT && (k.sends || traces_requests(scope[0], scope[1])));
#else
	own_begins(gr.id, kind, 0); /* it sends no contexts */
#endif
	return 0;
}

INLINE void read_ids(struct note *n, struct ids *to, u64 at)
{
	u8 flags = 0, remote = 0;

	if (read_foreign(to->trace, sizeof(to->trace), at + SETTING(context_trace)) || read_foreign(&to->span, sizeof(to->span), at + SETTING(context_span)) ||
	    read_foreign(&flags, 1, at + SETTING(context_flags)) || read_foreign(&remote, 1, at + SETTING(context_remote))) {
		n->to->r.flags |= LOUPE_UNREADABLE;
		to->trace[0] = to->trace[1] = to->span = 0;
	}
	to->flags = flags | (remote ? FLAG_REMOTE : 0);
}

INLINE void note_ids(struct note *n, const struct ids *i)
{
	note_word(n, i->trace[0]);
	note_word(n, i->trace[1]);
	note_word(n, i->span);
	note_word(n, i->flags);
}

/* newSpan has returned a span, whose context is that of what the goroutine does from now on. A *recordingSpan is recorded, a nonRecordingSpan is not. */
PROBE(begun)
{
	u64 itab = RESULT(begun, 0), span = RESULT(begun, 1), type = 0, words[3] = {};
	struct ids ids = {}, parent = {};
	struct goroutine gr;
	struct note n;

	NOTE_OR_RETURN(begun, BEGUN, &n, &gr);
	if (itab && !read_foreign(&type, sizeof(type), itab + 8) && read_foreign(words, sizeof(words), type))
		words[2] = 0; /* the Go half reads it */

	u64 kind = words[2] >> 56 & 31;

	note_word(&n, itab);
	note_word(&n, type);
	read_ids(&n, &ids, span + (kind && kind != KIND_POINTER ? SETTING(other_context) : SETTING(span_context)));
	if (!kind || kind == KIND_POINTER)
		read_ids(&n, &parent, span + SETTING(span_parent));
	note_ids(&n, &ids);
	note_ids(&n, &parent);
	note_word(&n, kind);
	note_end(&n);
	own_begun(gr.id, kind == KIND_POINTER ? span : 0, &ids, &parent);
	return 0;
}

/* func (s *recordingSpan) End(options ...trace.SpanEndOption) */
PROBE(end)
{
	u64 span = ARG(end, 0, 0), attributes[2] = {}, kind = 0;
	struct goroutine gr;
	struct keys k;
	struct ids ids;
	struct note n;

	NOTE_OR_RETURN(end, END, &n, &gr);
	own_ends(span);
	read_ids(&n, &ids, span + SETTING(span_context));
	note_ids(&n, &ids);
	if (read_foreign(&kind, sizeof(kind), span + SETTING(span_kind)))
		kind = 0;
	note_word(&n, kind);
	if (kind == CLIENT || kind == PRODUCER) {
		if (SETTING(attributes_slice) && read_foreign(attributes, sizeof(attributes), span + SETTING(span_attributes)))
			attributes[1] = 0;
		k.at = attributes[0];
		k.left = attributes[1];
		note_keys(&n, &k);
	}
	note_end(&n);
	return 0;
}
