//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * RPCs that google.golang.org/grpc serves and sends. The Go half is in decode.go, which reads the notes in the same order.
 */
enum loupe_probe {
	PROBE_server_begin,
	PROBE_server_end,
	PROBE_client_begin,
	PROBE_client_stream,
	PROBE_client_failed,
	PROBE_client_end,
	PROBE_fields_make,
	PROBE_fields_grow,
	PROBE_fields_grow_old,
	PROBE_fields_send,
	PROBE_COUNT,
};

/* Offsets of fields, where no comment says otherwise. */
enum loupe_setting {
	SETTING_stream_pointer, /* 1: a ServerStream begins with a pointer to a Stream. 0 and 2: it begins with a Stream, or is one */
	SETTING_stream_method,
	SETTING_stream_ctx,
	SETTING_server_remote, /* of an http2Server: a net.Addr */
	SETTING_server_local, /* the same of the server itself; 0: unknown */
	SETTING_client_remote, /* of an http2Client: a net.Addr */
	SETTING_conn_target,
	SETTING_call_attempt,
	SETTING_call_finished,
	SETTING_attempt_transport,
	SETTING_header_fields, /* of the headers of a stream: a slice of hpack.HeaderField */
	SETTING_status_message,
	SETTING_status_code,
	SETTING_error_status, /* how an error refers to its message Status: enum error_status */
	SETTING_send_start, /* the address of the functions that SendMsg of a server defers, */
	SETTING_send_size, /* their size, */
	SETTING_receive_start, /* and those of RecvMsg */
	SETTING_receive_size,

	SETTING_map_swiss, /* 1: Go 1.24 and later */
	SETTING_map_dir,      /* followed by dirLen */
	SETTING_table_groups, /* data, followed by lengthMask */
	SETTING_hmap_flags, /* followed by B */
	SETTING_hmap_buckets, /* followed by oldbuckets */
	SETTING_COUNT,
};

enum loupe_table_id {
	TABLE_COUNT,
};

#include "header.h"
#include "propagate.h"

/* Kinds of notes. */
enum {
	SERVER_BEGIN,
	SERVER_END,
	CLIENT_BEGIN,
	CLIENT_STREAM,
	CLIENT_FAILED,
	CLIENT_END,
	CLIENT_NO_HEADER,
};

enum error_status {
	ERROR_IS_MESSAGE, /* an error is a message itself */
	ERROR_HAS_MESSAGE,
	ERROR_HAS_STATUS, /* an error has a pointer to a Status, which has a pointer to a message */
};

enum {
	CONTEXTS = 12, /* contexts that are searched for metadata */
	KIND_MAP = 21, /* reflect.Map */
	FIRST_PAGE = 4096,
};

/* A word that need not be readable; 0 if it is not. Unlike note_read, it does not mark the note. */
INLINE u64 peek(u64 addr)
{
	u64 word = 0;

	return addr < FIRST_PAGE || read_foreign(&word, sizeof(word), addr) ? 0 : word;
}

/* The type in the itab of an interface value; 0 for nil. */
INLINE u64 type_in(u64 itab) { return itab ? peek(itab + 8) : 0; }

/* The metadata of a request: the key of the context value, and the map. */
struct metadata {
	u64 key, map;
};

/*
 * Searches a context and its parents for the metadata of a request. Contexts of package context begin with their parent; those with
 * a value continue with its key and the value. The metadata is the first map whose key has no size: the Go half checks the type of
 * the key.
 */
FUNCTION int find_metadata(struct metadata *to, u64 context)
{
	if (!to) /* the verifier checks functions by themselves */
		return 0;
	to->key = to->map = 0;
	for (u32 i = 0; i < CONTEXTS; i++) {
		u64 words[6] = {}, key[1] = {1}, kind = 0;

		if (context < FIRST_PAGE || read_foreign(words, sizeof(words), context))
			return 0;
		if (words[2] >= FIRST_PAGE && words[4] >= FIRST_PAGE && words[5] >= FIRST_PAGE && !(words[2] & 7) && !(words[4] & 7) &&
		    !read_foreign(key, sizeof(key), words[2]) && !key[0] && !read_foreign(&kind, sizeof(kind), words[4] + 16) &&
		    (kind >> 56 & 31) == KIND_MAP) {
			to->key = words[2];
			to->map = words[5];
			return 0;
		}
		context = words[1];
	}
	return 0;
}

/*
 * Adds the net.Addr at an address: its type, the word of a net.TCPAddr that is the port, and the text with which a net.TCPAddr and a
 * net.UnixAddr begin. The Go half uses them if it knows the type.
 */
INLINE void note_addr(struct note *n, u64 at)
{
	u64 addr[2] = {}, words[4] = {};

	if (at < FIRST_PAGE || read_foreign(addr, sizeof(addr), at) || addr[1] < FIRST_PAGE || read_foreign(words, sizeof(words), addr[1]))
		addr[0] = words[1] = 0;
	note_word(n, type_in(addr[0]));
	note_word(n, words[3]);
	note_text(n, words[0], words[1] > LOUPE_TEXT ? 0 : words[1]);
}

/* Adds the code and the text of the message Status at an address. It need not be one. */
INLINE void note_status(struct note *n, u64 message)
{
	u64 code = message ? peek(message + SETTING(status_code)) : 0, text[2] = {};
	u8 byte = 0;

	note_word(n, (u32)code);
	if (message < FIRST_PAGE || read_foreign(text, sizeof(text), message + SETTING(status_message)) || text[1] >> 32 ||
	    (text[1] && (read_foreign(&byte, 1, text[0]) || read_foreign(&byte, 1, text[0] + text[1] - 1))))
		text[0] = text[1] = 0;
	note_text(n, text[0], text[1]);
}

/* Adds an error: its type, the text of an errors.errorString if it is short, and its status. The Go half uses what its type has. */
INLINE void note_error(struct note *n, u64 itab, u64 data)
{
	u64 words[2] = {}, text = 0, message = data;

	if (data && !read_foreign(words, sizeof(words), data) && words[1] < 8 && words[1] && read_foreign(&text, words[1], words[0]))
		text = 0;
	if (SETTING(error_status) != ERROR_IS_MESSAGE)
		message = words[0];
	if (SETTING(error_status) == ERROR_HAS_STATUS)
		message = peek(message);
	note_word(n, type_in(itab));
	note_word(n, text);
	note_status(n, itab ? message : 0);
}

/* The address that a probed function returns to. */
#if defined(__TARGET_ARCH_x86)
#define RETURN_TO(probe) read_word(CALLER(probe))
#elif defined(__TARGET_ARCH_arm64)
#define RETURN_TO(probe) (SITE(probe).sp_moved ? read_word(CALLER(probe)) : CALLER(probe))
#endif

/* func (s *Server) handleStream(t transport.ServerTransport, stream *transport.ServerStream) */
PROBE(server_begin)
{
	struct header_search found;
	struct loupe_context context;
	struct metadata md;
	struct goroutine gr;
	struct note n;

	NOTE_OR_RETURN(server_begin, SERVER_BEGIN, &n, &gr);
	follow_begin(gr.g, gr.id);

	u64 itab = ARG(server_begin, 1, 8), transport = ARG(server_begin, 2, 16), stream = ARG(server_begin, 3, 24);
	u64 inner = SETTING(stream_pointer) == 1 ? note_read(&n, stream) : stream;

	u64 passed = note_read(&n, inner + SETTING(stream_ctx) + 8);

	find_metadata(&md, passed);
	header_find(&found, md.map);
	NOTE_SERVED(&n, &context, gr.id, found.traceparents == 1 ? found.traceparent : 0, found.tracestates == 1 ? found.tracestate : 0,
		found.baggages == 1 ? found.baggage : 0, passed);
	note_word(&n, stream);
	note_word(&n, passed);
	note_word(&n, md.key);
	note_word(&n, found.problems | (u64)found.traceparents << 32);
	note_word(&n, type_in(itab));
	note_string(&n, inner + SETTING(stream_method));
	note_string(&n, found.traceparent);
	note_string(&n, found.agent);
	note_addr(&n, transport + SETTING(server_remote));
	note_addr(&n, SETTING(server_local) ? transport + SETTING(server_local) : 0);
	note_carried(&n, &context, found.tracestates, found.baggages, found.tracestate);
	note_end(&n);
	return 0;
}

/*
 * func (t *http2Server) writeStatus(s *ServerStream, st *status.Status) error, and that of a serverHandlerTransport. SendMsg and
 * RecvMsg call it if they fail, while the handler runs. What handles the stream calls it again.
 */
PROBE(server_end)
{
	u64 from = RETURN_TO(server_end);
	struct goroutine gr;
	struct note n;

	if (from - SETTING(send_start) < SETTING(send_size) || from - SETTING(receive_start) < SETTING(receive_size))
		return 0;
	END_NOTE_OR_RETURN(server_end, SERVER_END, &n, &gr, LOUPE_PAYLOAD);
	follow_end(gr.g, gr.id);

	u64 status = ARG(server_end, 2, 16);

	note_word(&n, ARG(server_end, 1, 8));
	note_status(&n, status ? note_read(&n, status) : 0);
	note_end(&n);
	return 0;
}

/* func newClientStream(ctx context.Context, desc *StreamDesc, cc *ClientConn, method string, opts ...CallOption), and newClientStreamWithParams */
PROBE(client_begin)
{
	struct loupe_context context;
	struct goroutine gr;
	struct note n;

	NOTE_OR_RETURN(client_begin, CLIENT_BEGIN, &n, &gr);
	context_send(&context, gr.id, 0, 0, ARG(client_begin, 1, 8));
	note_context(&n, &context);
	note_contexts(&n, ARG(client_begin, 1, 8));

	u64 conn = ARG(client_begin, 3, 24);

	note_text(&n, ARG(client_begin, 4, 32), ARG(client_begin, 5, 40));
	note_string(&n, conn ? conn + SETTING(conn_target) : 0);
	note_end(&n);
	return 0;
}

/* func (cs *clientStream) withRetry(op func(a *csAttempt) error, onSuccess func()) error, where the stream is created */
PROBE(client_stream)
{
	struct goroutine gr;
	struct note n;

	NOTE_OR_RETURN(client_stream, CLIENT_STREAM, &n, &gr);
	note_word(&n, ARG(client_stream, 0, 0));
	note_end(&n);
	return 0;
}

/* The function of client_begin returns a stream and an error. Only errors are reported. */
PROBE(client_failed)
{
	struct goroutine gr;
	struct note n;

	if (!RETURNS(client_failed))
		return 0;

	u64 itab = RESULT(client_failed, 2);

	if (!itab)
		return 0;
	NOTE_OR_RETURN(client_failed, CLIENT_FAILED, &n, &gr);
	context_end_call(gr.id);
	note_error(&n, itab, RESULT(client_failed, 3));
	note_end(&n);
	return 0;
}

/* func (cs *clientStream) finish(err error) */
PROBE(client_end)
{
	u64 call = ARG(client_end, 0, 0), transport[2] = {};
	struct goroutine gr;
	struct note n;
	u8 finished = 0;

	if (!read_foreign(&finished, 1, call + SETTING(call_finished)) && finished)
		return 0;
	NOTE_OR_RETURN(client_end, CLIENT_END, &n, &gr);

	u64 attempt = note_read(&n, call + SETTING(call_attempt));

	if (attempt && read_foreign(transport, sizeof(transport), attempt + SETTING(attempt_transport)))
		n.to->r.flags |= LOUPE_UNREADABLE;
	note_word(&n, call);
	note_word(&n, type_in(transport[0]));
	note_error(&n, ARG(client_end, 1, 8), ARG(client_end, 2, 16));
	note_addr(&n, transport[1] ? transport[1] + SETTING(client_remote) : 0);
	note_end(&n);
	return 0;
}

#if HAS_CONTEXTS
enum {
	FIELD = 40, /* size of a hpack.HeaderField: two strings and a bool */
	NAME = 11,  /* length of "traceparent" */
	SPARE = 3,  /* fields at the end of the slice that a header requires: one for itself, two for its texts */
	ROOM = 4 * SPARE, /* fields that are added to the capacity of the slice when it is made */
	STATE_ROOM = 8,   /* those for a tracestate: a field and its texts, */
	BAGGAGE_ROOM = 14, /* and for a baggage */
	MAX_FIELDS = 64,
	MAX_SIZE = 4096, /* of a header list in HTTP/2. Servers accept longer ones, but not without limit */
};

/* Why a request has no header. */
enum {
	FIELDS_UNKNOWN = 1, /* the headers are not a slice in the heap that begins with the method */
	FIELDS_FULL = 2,    /* the slice has no room */
	FIELDS_LONG = 3,    /* there are too many headers, or they are too long */
};

INLINE void put(u64 addr, u64 word) { *(volatile u64 *)addr = word; }

/*
 * The capacity of a slice when it was made, which is stored with the flags of a context: the array has more elements. The code that
 * makes a slice does not learn of them. If the slice grows, it gets another array, and a larger capacity.
 */
enum {
	CAPACITY_SHIFT = 8,
	CAPACITY_MASK = 0xff,
	ROOM_SHIFT = 16, /* the number of these elements is stored there, too */
};

_Static_assert(MAX_FIELDS <= CAPACITY_MASK, "a capacity does not fit");

/* The fields that are added to the capacity of the slice when it is made. */
INLINE u64 room_of(const struct loupe_context *c)
{
	return ROOM + (carried_length(c->carried, CARRIED_STATE) ? STATE_ROOM : 0) + (carried_length(c->carried, CARRIED_BAGGAGE) ? BAGGAGE_ROOM : 0);
}

/* The fields of a request, while more are added: how many there are, and where the texts of the next one can be. */
struct adding {
	u64 next, text, end;
};

/* Adds a field whose name has at most 16 bytes, and whose value follows it. */
INLINE void put_field(struct adding *a, u64 name, u64 value)
{
	put(a->next, a->text);
	put(a->next + 8, name);
	put(a->next + 16, a->text + 16);
	put(a->next + 24, value);
	put(a->next + 32, 1); /* Sensitive: neither side keeps the value in its table of headers */
	a->next += FIELD;
	a->text += 16 + ((value + 7) & ~7ull);
}

/* Adds a field that the request carries on. Returns whether that succeeds, or whether there is none. */
FUNCTION int carry_field(struct adding *a, const struct loupe_context *c, u32 which, int own)
{
	u32 length = own ? 0 : carried_length(c->carried, which), name = 10;

	if (!length)
		return 1;
	if (a->text + 16 + length > a->end || !carried_write(a->text + 16, c->carried, which, length))
		return 0;
	if (which == CARRIED_STATE) {
		put(a->text, TEXT8('t', 'r', 'a', 'c', 'e', 's', 't', 'a'));
		put(a->text + 8, TEXT8('t', 'e', 0, 0, 0, 0, 0, 0));
	} else {
		put(a->text, BAGGAGE);
		name = 7;
	}
	put_field(a, name, length);
	return 1;
}

/*
 * Adds a field to the headers of a request. Its texts are behind it in the same array, in elements that the slice does not contain. So
 * the array stays in memory as long as the texts are used. The garbage collector finds texts where it expects pointers, and ignores
 * them: these are not addresses of its heap. Returns 0 if the field was added or was there before, or why it was not added.
 */
FUNCTION int add_field(u64 header, const struct loupe_context *c)
{
	u64 fields[3] = {}, field[4] = {}, size = 0, room, count;
	struct adding a;
	u8 value[TRACEPARENT + 1];
	int own_state = 0, own_baggage = 0, missing;

	if (!heap_memory(header + SETTING(header_fields), sizeof(fields)) || read_foreign(fields, sizeof(fields), header + SETTING(header_fields)) ||
	    !fields[1] || fields[1] > fields[2] || fields[2] >> 32)
		return FIELDS_UNKNOWN;
	if (fields[1] > MAX_FIELDS)
		return FIELDS_LONG;
	for (u64 i = 0; i < fields[1]; i++) {
		u8 first[8] = {};

		if (read_foreign(field, sizeof(field), fields[0] + i * FIELD) || field[1] >> 32 || field[3] >> 32)
			return FIELDS_UNKNOWN;
		if (!i && (field[1] != 7 || read_foreign(first, 7, field[0]) || first[0] != ':' || first[1] != 'm'))
			return FIELDS_UNKNOWN;
		if (field[1] == NAME && header_text_is(field[0], NAME, TRACEPARENT_FIRST, TRACEPARENT_LAST))
			return 0;
		own_state |= field[1] == 10 && header_text_is(field[0], 10, TRACESTATE_FIRST, TRACESTATE_LAST);
		own_baggage |= field[1] == 7 && header_text7_is(field[0], BAGGAGE);
		size += field[1] + field[3] + 32;
	}
	if (size + NAME + TRACEPARENT + 32 > MAX_SIZE)
		return FIELDS_LONG;
	room = fields[2] + (fields[2] == (c->flags >> CAPACITY_SHIFT & CAPACITY_MASK) ? c->flags >> ROOM_SHIFT : 0) - fields[1];
	if (room < SPARE)
		return FIELDS_FULL;
	if (room > MAX_FIELDS)
		room = MAX_FIELDS;
	a.next = fields[0] + fields[1] * FIELD;
	a.end = a.next + room * FIELD;
	if (!heap_memory(a.next, room * FIELD))
		return FIELDS_UNKNOWN;
	count = 1 + (!own_state && carried_length(c->carried, CARRIED_STATE)) + (!own_baggage && carried_length(c->carried, CARRIED_BAGGAGE));
	missing = count > 1 && (room < SPARE + count - 1 || size > MAX_SIZE / 2);
	if (missing)
		count = 1;
	a.text = a.next + count * FIELD;
	put_traceparent(value, c);
	put(a.text, TEXT8('t', 'r', 'a', 'c', 'e', 'p', 'a', 'r'));
	put(a.text + 8, TEXT8('e', 'n', 't', 0, 0, 0, 0, 0));
	for (u32 i = 0; i < TRACEPARENT; i++)
		*(volatile u8 *)(a.text + 16 + i) = value[i];
	put_field(&a, NAME, TRACEPARENT);
	if (count > 1) {
		missing |= !carry_field(&a, c, CARRIED_STATE, own_state);
		missing |= !carry_field(&a, c, CARRIED_BAGGAGE, own_baggage);
	}
	count = (a.next - fields[0]) / FIELD;
	if (count > fields[2])
		put(header + SETTING(header_fields) + 16, count);
	put(header + SETTING(header_fields) + 8, count);
	return missing ? CARRIED_MISSING : 0;
}
#endif

/* func makeslice(et *_type, len, cap int) unsafe.Pointer, where createHeaderFields makes the slice of headers: it gets more room */
PROBE(fields_make)
{
#if HAS_CONTEXTS
	u64 size = 0, capacity = ARG(fields_make, 2, 16), room;
	struct loupe_context *call;
	struct goroutine gr;

	if (!native.contexts || !read_any_g(&gr, CURRENT_G(fields_make)))
		return 0;
	call = context_find(context_key(gr.id, CONTEXT_CALL), 0);
	if (call)
		call->flags &= (1 << CAPACITY_SHIFT) - 1; /* of an earlier attempt */
	if (!call || read_foreign(&size, 8, ARG(fields_make, 0, 0)) || size != FIELD || !capacity || capacity > MAX_FIELDS)
		return 0;
	room = room_of(call);
	SET_THIRD(capacity + room);
	call->flags |= capacity << CAPACITY_SHIFT | room << ROOM_SHIFT;
#endif
	return 0;
}

#if HAS_CONTEXTS
/*
 * The capacity that the slice of headers gets if it grows: it holds as many headers as a request with another one can have. Returns 0 for
 * another slice.
 */
INLINE u64 grown_capacity(u64 g, u64 type, u64 capacity)
{
	struct loupe_context *call;
	struct goroutine gr;
	u64 size = 0;

	if (!native.contexts || !read_any_g(&gr, g))
		return 0;
	call = context_find(context_key(gr.id, CONTEXT_CALL), 0);
	if (!call || read_foreign(&size, 8, type) || size != FIELD || !capacity || capacity > MAX_FIELDS)
		return 0;
	return MAX_FIELDS + room_of(call);
}
#endif

/*
 * func growslice(oldPtr unsafe.Pointer, newLen, oldCap, num int, et *_type) slice, where createHeaderFields appends a header. The new
 * capacity is twice the old one if that is large enough.
 */
PROBE(fields_grow)
{
#if HAS_CONTEXTS
	u64 capacity = ARG(fields_grow, 2, 16), grown = grown_capacity(CURRENT_G(fields_grow), ARG(fields_grow, 4, 32), capacity);

	if (grown)
		SET_THIRD(grown / 2 > capacity ? grown / 2 : capacity);
#endif
	return 0;
}

/* func growslice(et *_type, old slice, cap int) slice before Go 1.20: cap is what the new capacity must be at least */
PROBE(fields_grow_old)
{
#if HAS_CONTEXTS
	u64 grown = grown_capacity(CURRENT_G(fields_grow_old), ARG(fields_grow_old, 0, 0), ARG(fields_grow_old, 3, 24));

	if (grown && grown > ARG(fields_grow_old, 4, 32))
		SET_FIFTH(grown);
#endif
	return 0;
}

/* func (c *controlBuffer) executeAndPut(f func() bool, it cbItem) (bool, error), where NewStream passes the headers to the writer of the connection */
PROBE(fields_send)
{
#if HAS_CONTEXTS
	struct loupe_context context;
	struct goroutine gr;
	struct note n;
	int problem;

	if (!native.contexts || !read_any_g(&gr, CURRENT_G(fields_send)) || !context_take(context_key(gr.id, CONTEXT_CALL), &context))
		return 0;
	problem = add_field(ARG(fields_send, 3, 24), &context);
	if (!problem || !note_begin(&n, CLIENT_NO_HEADER, target_thread(), gr.id, 0))
		return 0;
	note_word(&n, problem);
	note_end(&n);
#endif
	return 0;
}
