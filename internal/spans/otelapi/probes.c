//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Spans that a program makes by the API of OpenTelemetry. The Go half is in decode.go, which reads the notes in the same order.
 */
enum loupe_probe {
	PROBE_start,
	PROBE_new_span,
	PROBE_started,
	PROBE_end,
	PROBE_set_attributes,
	PROBE_set_status,
	PROBE_set_name,
	PROBE_add_event,
	PROBE_record_error,
	PROBE_COUNT,
};

/* Offsets of fields. */
enum loupe_setting {
	SETTING_tracer_name,
	SETTING_tracer_delegate,
	SETTING_kv_key,
	SETTING_kv_vtype,
	SETTING_kv_numeric,
	SETTING_kv_stringly,
	SETTING_kv_slice,
	SETTING_slice_pointer, /* 1: the value is a pointer to a slice, before v1.11.1; 0: it is an array */
	SETTING_context_value,
	SETTING_COUNT,
};

enum loupe_table_id {
	TABLE_COUNT,
};

#define LOUPE_PAYLOAD 2048
#include "contexts.h"

/* Kinds of notes. */
enum {
	START,
	STARTED,
	END,
	SET_ATTRIBUTES,
	SET_STATUS,
	SET_NAME,
	ADD_EVENT,
	RECORD_ERROR,
};

/* Items of a list in a note. */
enum {
	ITEM_NONE, /* after the last one */
	ITEM_OPTION,
	ITEM_ATTRIBUTE,
	ITEM_TEXT, /* an element of the attribute before it, which is a []string */
};

enum {
	MAX_ITEMS = 24, /* items in a note */
	MAX_OPTIONS = 8, /* options that are read */
	MAX_LIST = 64, /* attributes in an option; what has more is no list of attributes */
	MAX_ROOM = 4096, /* capacity of that list */
	MAX_TEXTS = 8, /* elements of an attribute that are read */

	KEY_VALUE = 64, /* size of an attribute.KeyValue */

	/* attribute.Type */
	TYPE_BOOLSLICE = 5,
	TYPE_FLOAT64SLICE = 7,
	TYPE_STRINGSLICE = 8,
};

/*
 * Adds a text and its address. Constants that the program has not accessed yet cannot be read by eBPF; the Go half reads them. So that is
 * no problem of the note.
 */
INLINE void note_reference(struct note *n, u64 addr, u64 length)
{
	u16 flags = n->to->r.flags;

	note_word(n, addr);
	note_text(n, addr, length);
	n->to->r.flags = (n->to->r.flags & ~LOUPE_UNREADABLE) | flags;
}

/* The same for the string at an address. */
INLINE void note_string_reference(struct note *n, u64 at)
{
	u64 text[2] = {};

	if (read_foreign(text, sizeof(text), at))
		n->to->r.flags |= LOUPE_UNREADABLE;
	note_reference(n, text[0], text[1]);
}

/* A list of attributes, and then options, which can have such lists. */
struct items {
	u64 at, left;          /* the next attribute */
	u64 option, options;   /* the next option */
	u64 text, texts;       /* the next element of an attribute */
	u64 position;          /* of the next word of the note */
};

/* Adds an option: an interface of which the Go half knows the type. A list of attributes in it follows. */
INLINE void note_option(struct note *n, struct items *l)
{
	u64 option[2] = {}, type = 0, value[3] = {};

	if (read_foreign(option, sizeof(option), l->option))
		n->to->r.flags |= LOUPE_UNREADABLE;
	if (option[0] && read_foreign(&type, sizeof(type), option[0] + 8))
		type = 0; /* the Go half reads it */
	if (option[1] && read_foreign(value, sizeof(value), option[1]) && read_foreign(value, 16, option[1]) && read_foreign(value, 8, option[1]))
		value[0] = value[1] = value[2] = 0;
	l->at = value[0];
	l->left = value[1] <= MAX_LIST && value[1] <= value[2] && value[2] <= MAX_ROOM && value[0] >> 12 && !(value[0] & 7) ? value[1] : 0;
	note_word(n, ITEM_OPTION);
	note_word(n, option[0]);
	note_word(n, type);
	note_word(n, option[1]);
	note_word(n, value[0]);
	note_word(n, value[1]);
	l->option += 16;
	l->options--;
}

/* Adds an attribute, without the elements of a []string. */
INLINE void note_attribute(struct note *n, struct items *l)
{
	u64 type = 0, numeric = 0, text[2] = {}, slice[2] = {}, size = 0;

	if (read_foreign(&type, sizeof(type), l->at + SETTING(kv_vtype)) || read_foreign(&numeric, sizeof(numeric), l->at + SETTING(kv_numeric)) ||
	    read_foreign(text, sizeof(text), l->at + SETTING(kv_stringly)) || read_foreign(slice, sizeof(slice), l->at + SETTING(kv_slice)))
		n->to->r.flags |= LOUPE_UNREADABLE;
	if (type >= TYPE_BOOLSLICE && type <= TYPE_STRINGSLICE) {
		u64 data = slice[1];

		if (SETTING(slice_pointer)) {
			if (read_foreign(slice, sizeof(slice), data))
				n->to->r.flags |= LOUPE_UNREADABLE;
			data = slice[0];
			size = slice[1] * (type == TYPE_STRINGSLICE ? 16 : type == TYPE_BOOLSLICE ? 1 : 8);
		} else if (slice[0] && read_foreign(&size, sizeof(size), slice[0])) { /* a type begins with the size of its values */
			n->to->r.flags |= LOUPE_UNREADABLE;
		}
		text[0] = data;
		text[1] = size;
		if (type == TYPE_STRINGSLICE) {
			l->text = data;
			l->texts = size / 16 < MAX_TEXTS ? size / 16 : MAX_TEXTS;
			text[1] = 0;
		}
	}
	note_word(n, ITEM_ATTRIBUTE);
	note_word(n, type);
	note_word(n, numeric);
	note_string_reference(n, l->at + SETTING(kv_key));
	note_reference(n, text[0], text[1]);
	l->at += KEY_VALUE;
	l->left--;
}

/* Adds the next item. The verifier checks this once, and not each time that it is called. */
FUNCTION int note_item(struct loupe_note *to, struct items *l)
{
	if (!to || !l)
		return 0;

	struct note n = {to, l->position, LOUPE_PAYLOAD};

	if (l->texts) {
		note_word(&n, ITEM_TEXT);
		note_string_reference(&n, l->text);
		l->text += 16;
		l->texts--;
	} else if (l->left) {
		note_attribute(&n, l);
	} else if (l->options) {
		note_option(&n, l);
	}
	l->position = n.at;
	return 0;
}

/* Adds the items of a list. */
INLINE void note_items(struct note *n, u64 at, u64 left, u64 option, u64 options)
{
	struct items l = {at, left, option, options, 0, 0, n->at};

	if (l.options > MAX_OPTIONS) {
		l.options = MAX_OPTIONS;
		n->to->r.flags |= LOUPE_FULL;
	}
	for (u32 i = 0; i < MAX_ITEMS; i++)
		note_item(n->to, &l);
	if (l.texts | l.left | l.options)
		n->to->r.flags |= LOUPE_FULL;
	n->at = l.position;
	note_word(n, ITEM_NONE);
}

/* Adds a context and the data of its value, and goes on to the one that it was made from. Returns 0 if it is none. */
FUNCTION int note_value_of(struct loupe_note *to, struct contexts *c)
{
	u64 value[2] = {};

	if (!to || !c || c->context < CONTEXTS_FIRST || c->context & 7)
		return 0;

	struct note n = {to, c->position, LOUPE_PAYLOAD};

	if (read_foreign(value, sizeof(value), c->context + SETTING(context_value)))
		value[1] = 0; /* the outermost one may be smaller */
	note_word(&n, c->context);
	note_word(&n, value[1]);
	c->context = context_above(c->context);
	c->position = n.at;
	return 1;
}

/*
 * Adds a context and those that it was made from, innermost first, each with the data of its value, and then 0. One of the values can be a
 * span. Of other contexts than a valueCtx, they have no meaning.
 */
INLINE void note_values(struct note *n, u64 context)
{
	struct contexts c = {context, n->at};

	for (u32 i = 0; i < CONTEXTS_MAX; i++)
		if (!note_value_of(n->to, &c))
			break;
	n->at = c.position;
	note_word(n, 0);
}

/* Sends the begin of a span. */
#define SEND_START(probe, tracer, context, name, length, options, count)                       \
	do {                                                                                   \
		struct goroutine gr;                                                           \
		struct note n;                                                                 \
                                                                                               \
		NOTE_OR_RETURN(probe, START, &n, &gr);                                         \
		follow_begin(gr.g, gr.id); /* until Tracker.Release */                         \
		note_string_reference(&n, (tracer) + SETTING(tracer_name));                    \
		note_reference(&n, name, length);                                              \
		note_values(&n, context);                                                      \
		note_items(&n, 0, 0, options, count);                                          \
		note_end(&n);                                                                  \
		return 0;                                                                      \
	} while (0)

/*
 * func (t *tracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span), before v1.33.0. A
 * tracer with a delegate is that of an SDK, which makes the span.
 */
PROBE(start)
{
	u64 tracer = ARG(start, 0, 0), delegate = 0;

	if (read_foreign(&delegate, sizeof(delegate), tracer + SETTING(tracer_delegate)) || delegate)
		return 0;
	SEND_START(start, tracer, ARG(start, 2, 16), ARG(start, 3, 24), ARG(start, 4, 32), ARG(start, 5, 40), ARG(start, 6, 48));
}

/*
 * func (t *tracer) newSpan(ctx context.Context, autoSpan *bool, name string, opts []trace.SpanStartOption) (context.Context, trace.Span),
 * which Start calls if there is no delegate. If another program has set autoSpan, it receives the span.
 */
PROBE(new_span)
{
	u8 other = 1;

	if (read_foreign(&other, 1, ARG(new_span, 3, 24)) || other)
		return 0;
	SEND_START(new_span, ARG(new_span, 0, 0), ARG(new_span, 2, 16), ARG(new_span, 4, 32), ARG(new_span, 5, 40), ARG(new_span, 6, 48), ARG(new_span, 7, 56));
}

/* Either of them, where it returns: the span, and its copy in the context */
PROBE(started)
{
	u64 context = RESULT(started, 1), span = RESULT(started, 3);
	struct goroutine gr;
	struct note n;

	NOTE_OR_RETURN(started, STARTED, &n, &gr);
	note_word(&n, span);
	note_word(&n, context ? note_read(&n, context + SETTING(context_value) + 8) : 0);
	note_word(&n, context);
	note_end(&n);
	return 0;
}

/* Begins a note of a method of a span. The receiver is a pointer to the value in the interface. */
#define METHOD(probe, what)                                                                    \
	struct goroutine gr;                                                                   \
	struct note n;                                                                         \
                                                                                               \
	NOTE_OR_RETURN(probe, what, &n, &gr);                                                  \
	note_word(&n, ARG(probe, 0, 0))

#define DONE()                                                                                 \
	do {                                                                                   \
		note_end(&n);                                                                  \
		return 0;                                                                      \
	} while (0)

/* func (nonRecordingSpan) End(...trace.SpanEndOption) */
PROBE(end)
{
	METHOD(end, END);
	note_items(&n, 0, 0, ARG(end, 1, 8), ARG(end, 2, 16));
	DONE();
}

/* func (nonRecordingSpan) SetAttributes(...attribute.KeyValue) */
PROBE(set_attributes)
{
	METHOD(set_attributes, SET_ATTRIBUTES);
	note_items(&n, ARG(set_attributes, 1, 8), ARG(set_attributes, 2, 16), 0, 0);
	DONE();
}

/* func (nonRecordingSpan) SetStatus(codes.Code, string) */
PROBE(set_status)
{
	METHOD(set_status, SET_STATUS);
	note_word(&n, (u32)ARG(set_status, 1, 8));
	note_reference(&n, ARG(set_status, 2, 16), ARG(set_status, 3, 24));
	DONE();
}

/* func (nonRecordingSpan) SetName(string) */
PROBE(set_name)
{
	METHOD(set_name, SET_NAME);
	note_reference(&n, ARG(set_name, 1, 8), ARG(set_name, 2, 16));
	DONE();
}

/* func (nonRecordingSpan) AddEvent(string, ...trace.EventOption) */
PROBE(add_event)
{
	METHOD(add_event, ADD_EVENT);
	note_reference(&n, ARG(add_event, 1, 8), ARG(add_event, 2, 16));
	note_items(&n, 0, 0, ARG(add_event, 3, 24), ARG(add_event, 4, 32));
	DONE();
}

/* func (nonRecordingSpan) RecordError(error, ...trace.EventOption). Some types of errors begin with their message. */
PROBE(record_error)
{
	u64 itab = ARG(record_error, 1, 8), data = ARG(record_error, 2, 16), message[2] = {}, type = 0;

	if (!itab)
		return 0;
	if (read_foreign(&type, sizeof(type), itab + 8))
		type = 0; /* the Go half reads it */
	if (read_foreign(message, sizeof(message), data))
		message[0] = message[1] = 0;
	METHOD(record_error, RECORD_ERROR);
	note_word(&n, itab);
	note_word(&n, type);
	note_reference(&n, message[0], message[1] >> 20 ? 0 : message[1]);
	note_items(&n, 0, 0, ARG(record_error, 3, 24), ARG(record_error, 4, 32));
	DONE();
}
