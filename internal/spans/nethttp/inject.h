/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The headers with the contexts of spans, which are added to requests while these are written: lines of HTTP/1.1, fields of HTTP/2.
 */
#ifndef LOUPE_NETHTTP_INJECT_H
#define LOUPE_NETHTTP_INJECT_H

#if HAS_CONTEXTS
enum {
	HEADER_LINE = 13 + TRACEPARENT + 2, /* "Traceparent: ...\r\n" */
};

/* Why a request has no header. */
enum {
	BUFFER_UNKNOWN = 1, /* what it is written to is not a bufio.Writer in the heap, or has failed */
	BUFFER_FULL = 2,
	BUFFER_UNEXPECTED = 3, /* the buffer does not end with a line */
};

/*
 * Adds a line with a value that the request carries on, in the unused part of a buffer. Returns its length, 0 if there is none, or -1 if it
 * cannot be added.
 */
FUNCTION s64 carried_line(u64 at, u64 room, const struct loupe_context *c, u32 which)
{
	u32 length = c->flags & (which == CARRIED_STATE ? LOUPE_OWN_STATE : LOUPE_OWN_BAGGAGE) ? 0 : carried_length(c->carried, which);
	u64 words[2];
	const u8 *name = (const u8 *)words;
	u32 before;

	if (which == CARRIED_STATE) {
		words[0] = TEXT8('T', 'r', 'a', 'c', 'e', 's', 't', 'a');
		words[1] = TEXT8('t', 'e', ':', ' ', 0, 0, 0, 0);
		before = 12;
	} else {
		words[0] = TEXT8('B', 'a', 'g', 'g', 'a', 'g', 'e', ':');
		words[1] = ' ';
		before = 9;
	}
	if (!length)
		return 0;
	if (room < before + length + 2 || !heap_memory(at, before + length + 2))
		return -1;
	for (u32 i = 0; i < before; i++)
		*(volatile u8 *)(at + i) = name[i];
	if (!carried_write(at + before, c->carried, which, length))
		return -1;
	*(volatile u8 *)(at + before + length) = '\r';
	*(volatile u8 *)(at + before + length + 1) = '\n';
	return before + length + 2;
}

/*
 * Adds a line to the header that is being written to a bufio.Writer. The goroutine that writes to a connection owns its writer, and is
 * between two lines now. Returns 0, or why the line was not added.
 */
INLINE int write_line(u64 writer, const struct loupe_context *c)
{
	u64 err = 0, n = 0, buf[2] = {};
	u64 words[(HEADER_LINE + 7) / 8];
	u8 *line = (u8 *)words;
	u16 end = 0;

	if (!heap_memory(writer, 64) || read_foreign(&err, 8, writer + SETTING(bufio_err)) || err || read_foreign(&n, 8, writer + SETTING(bufio_n)) ||
	    read_foreign(buf, sizeof(buf), writer + SETTING(bufio_buf)) || n > buf[1] || buf[1] >> 32)
		return BUFFER_UNKNOWN;
	if (n < 2 || read_foreign(&end, 2, buf[0] + n - 2) || end != ('\r' | '\n' << 8))
		return BUFFER_UNEXPECTED;
	if (buf[1] - n < HEADER_LINE)
		return BUFFER_FULL;
	if (!heap_memory(buf[0] + n, HEADER_LINE))
		return BUFFER_UNKNOWN;
	words[0] = TEXT8('T', 'r', 'a', 'c', 'e', 'p', 'a', 'r');
	words[1] = TEXT8('e', 'n', 't', ':', ' ', 0, 0, 0);
	put_traceparent(line + 13, c);
	line[HEADER_LINE - 2] = '\r';
	line[HEADER_LINE - 1] = '\n';
	for (u32 i = 0; i < HEADER_LINE; i++)
		*(volatile u8 *)(buf[0] + n + i) = line[i];
	n += HEADER_LINE;

	s64 state = carried_line(buf[0] + n, buf[1] - n, c, CARRIED_STATE), baggage;

	if (state > 0)
		n += state;
	baggage = carried_line(buf[0] + n, buf[1] - n, c, CARRIED_BAGGAGE);
	if (baggage > 0)
		n += baggage;
	*(volatile u64 *)(writer + SETTING(bufio_n)) = n;
	return state < 0 || baggage < 0 ? CARRIED_MISSING : 0;
}
#endif

/* The current goroutine begins to write a request to a connection. */
INLINE int begin_write(u64 g, u64 req)
{
#if HAS_CONTEXTS
	struct loupe_context sent, *writing;
	struct goroutine gr;

	if (!native.contexts || !read_any_g(&gr, g) || !context_take(req, &sent))
		return 0;
	writing = context_find(context_key(gr.id, CONTEXT_WRITE), 1);
	if (writing)
		copy_context(writing, &sent, sent.flags);
#endif
	return 0;
}

/* func (r *Request) write(w io.Writer, usingProxy bool, extraHeaders Header, waitForContinue func() bool) error: by the goroutine of a connection */
PROBE(request_write)
{
	return begin_write(CURRENT_G(request_write), ARG(request_write, 0, 0));
}

/* func (cs *clientStream) encodeAndWriteHeaders(req *Request) error: by a goroutine that was created for the request */
PROBE(http2_write)
{
	return begin_write(CURRENT_G(http2_write), ARG(http2_write, 1, 8));
}

#if HAS_CONTEXTS
/* Reports that the request which the current goroutine writes has no header. */
INLINE void note_no_header(u64 goid, int problem)
{
	struct note n;

	if (!problem || !note_begin(&n, CLIENT_NO_HEADER, target_thread(), goid, 0))
		return;
	note_word(&n, problem);
	note_end(&n);
}
#endif

/* func (h Header) writeSubset(w io.Writer, exclude map[string]bool, trace *httptrace.ClientTrace) error, where (*Request).write calls it */
PROBE(header_write)
{
#if HAS_CONTEXTS
	struct loupe_context context;
	struct goroutine gr;

	if (native.contexts && read_any_g(&gr, CURRENT_G(header_write)) && context_take(context_key(gr.id, CONTEXT_WRITE), &context))
		note_no_header(gr.id, write_line(ARG(header_write, 2, 16), &context));
#endif
	return 0;
}

#if HAS_CONTEXTS
enum {
	BLOCK_FIELD = 2 + 11 + 1 + TRACEPARENT,
	FIELD_SIZE = 11 + TRACEPARENT + 32, /* in a header list */
	LONG_BLOCK = 2048,
	SHORT_LIST = 1 << 16,
};

/* The bytes of a field of a block that the request carries on; 0: there is none. */
INLINE u32 carried_field(const struct loupe_context *c, u32 which)
{
	u32 length = c->flags & (which == CARRIED_STATE ? LOUPE_OWN_STATE : LOUPE_OWN_BAGGAGE) ? 0 : carried_length(c->carried, which);

	if (!length)
		return 0;
	return 2 + (which == CARRIED_STATE ? 10 : 7) + (length < 127 ? 1 : length < 127 + 128 ? 2 : 3) + length;
}

/* Writes such a field, and returns whether that succeeds. */
FUNCTION int put_field(u64 at, const struct loupe_context *c, u32 which)
{
	u64 words[2];
	u32 length = carried_length(c->carried, which), rest = length - 127, n;
	u8 *head = (u8 *)words;

	if (which == CARRIED_STATE) {
		words[0] = TEXT8(0x10, 10, 't', 'r', 'a', 'c', 'e', 's');
		words[1] = TEXT8('t', 'a', 't', 'e', 0, 0, 0, 0);
		n = 12;
	} else {
		words[0] = TEXT8(0x10, 7, 'b', 'a', 'g', 'g', 'a', 'g');
		words[1] = 'e';
		n = 9;
	}
	if (length < 127) {
		head[n++] = length;
	} else {
		head[n++] = 127;
		if (rest < 128) {
			head[n++] = rest;
		} else {
			head[n++] = rest | 128;
			head[n++] = rest >> 7;
		}
	}
	for (u32 i = 0; i < n; i++)
		*(volatile u8 *)(at + i) = head[i];
	return length && carried_write(at + n, c->carried, which, length);
}

/*
 * The place for a block of headers with one more field: a copy at the end of the buffer of the connection, whose writer the current
 * goroutine owns. The block is copied from there to a frame before that is written to the buffer. Returns 0, or why there is none.
 */
INLINE int longer_block(u64 *to, u64 conn, u64 block, u64 *block_length, const struct loupe_context *c)
{
	u64 length = *block_length, more, problem = 0;
	u64 writer = 0, err = 0, used = 0, buf[2] = {}, limit = 0;
	u64 words[(BLOCK_FIELD + 7) / 8];
	u8 *field = (u8 *)words;

	if (read_foreign(&limit, 8, conn + SETTING(http2_conn_limit)) || read_foreign(&writer, 8, conn + SETTING(http2_conn_bw)) ||
	    !heap_memory(writer, 64) || read_foreign(&err, 8, writer + SETTING(bufio_err)) || err || read_foreign(&used, 8, writer + SETTING(bufio_n)) ||
	    read_foreign(buf, sizeof(buf), writer + SETTING(bufio_buf)) || used > buf[1] || buf[1] >> 32)
		return BUFFER_UNKNOWN;
	/* The peer may refuse a longer list. The length of this one is unknown: a byte of the block can be a long field. */
	if (length > LONG_BLOCK || limit < SHORT_LIST || buf[1] - used < length + BLOCK_FIELD)
		return BUFFER_FULL;

	u32 state = carried_field(c, CARRIED_STATE), baggage = carried_field(c, CARRIED_BAGGAGE);

	if (buf[1] - used < length + BLOCK_FIELD + state + baggage) {
		state = baggage = 0;
		problem = CARRIED_MISSING;
	}

	u64 at = buf[0] + buf[1] - length - BLOCK_FIELD - state - baggage;

	if (!heap_memory(at, length + BLOCK_FIELD + state + baggage) || !heap_memory(block, length))
		return BUFFER_UNKNOWN;
	words[0] = TEXT8(0x10, 11, 't', 'r', 'a', 'c', 'e', 'p'); /* 0x10: a literal that is never indexed */
	words[1] = TEXT8('a', 'r', 'e', 'n', 't', TRACEPARENT, 0, 0);
	put_traceparent(field + BLOCK_FIELD - TRACEPARENT, c);
	for (u64 i = 0; i < length; i++)
		*(volatile u8 *)(at + i) = *(volatile u8 *)(block + i);
	for (u32 i = 0; i < BLOCK_FIELD; i++)
		*(volatile u8 *)(at + length + i) = field[i];
	more = length + BLOCK_FIELD;
	if (state && carried_field(c, CARRIED_STATE) == state && put_field(at + more, c, CARRIED_STATE))
		more += state;
	else if (state)
		problem = CARRIED_MISSING;
	if (baggage && carried_field(c, CARRIED_BAGGAGE) == baggage && put_field(at + more, c, CARRIED_BAGGAGE))
		more += baggage;
	else if (baggage)
		problem = CARRIED_MISSING;
	*to = at;
	*block_length = more;
	return problem;
}
#endif

/*
 * func (cc *ClientConn) writeHeaders(streamID uint32, endStream bool, maxFrameSize int, hdrs []byte) error, where encodeAndWriteHeaders calls
 * it: the block gets one more field
 */
PROBE(http2_header)
{
#if HAS_CONTEXTS
	u64 length = ARG(http2_header, 5, 40), at = 0;
	struct loupe_context context;
	struct goroutine gr;
	int problem;

	if (!native.contexts || !read_any_g(&gr, CURRENT_G(http2_header)) || !context_take(context_key(gr.id, CONTEXT_WRITE), &context))
		return 0;
	problem = longer_block(&at, ARG(http2_header, 0, 0), ARG(http2_header, 4, 32), &length, &context);
	if (at)
		SET_FIFTH_SLICE(at, length, length);
	note_no_header(gr.id, problem);
#endif
	return 0;
}

#endif
