//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Requests that net/http and golang.org/x/net/http2 serve and send. The Go half is in decode.go, which reads the notes in the same order.
 */
enum loupe_probe {
	PROBE_server_begin,
	PROBE_handler_begin,
	PROBE_server_end,
	PROBE_server_http2_end,
	PROBE_client_begin,
	PROBE_client_failed,
	PROBE_client_end,
	PROBE_client_http2_begin,
	PROBE_client_http2_end,
	PROBE_request_write,
	PROBE_header_write,
	PROBE_http2_write,
	PROBE_http2_header,
	PROBE_COUNT,
};

/* Offsets of fields, where no comment says otherwise. */
enum loupe_setting {
	SETTING_req_method,
	SETTING_req_url,
	SETTING_req_proto_major, /* followed by ProtoMinor */
	SETTING_req_header,
	SETTING_req_ctx,
	SETTING_req_host,
	SETTING_req_remote_addr,
	SETTING_req_tls,
	SETTING_req_pattern, /* since Go 1.23 */
	SETTING_req_pat,     /* Go 1.22 */
	SETTING_pattern_str, /* Go 1.22 */
	SETTING_url_scheme,
	SETTING_url_host,
	SETTING_url_path,
	SETTING_url_raw_query,
	SETTING_conn_cur_req, /* of the pointer in it */
	SETTING_conn_hijacked,
	SETTING_response_req,
	SETTING_response_status,
	SETTING_response_written,
	SETTING_http2_writer_state,
	SETTING_http2_state_req, /* until Go 1.26; 0: unknown */
	SETTING_http2_state_status,
	SETTING_http2_state_written,
	SETTING_treq_request,
	SETTING_result_status,
	SETTING_result_proto_major, /* followed by ProtoMinor */
	SETTING_http2_req_method,
	SETTING_http2_req_url,
	SETTING_http2_req_header,
	SETTING_http2_req_ctx,
	SETTING_http2_conn_bw, /* a *bufio.Writer */
	SETTING_http2_conn_limit, /* the longest header list that the peer accepts */
	SETTING_http2_stream_res,
	SETTING_http2_res_status,
	SETTING_bufio_err,
	SETTING_bufio_buf,
	SETTING_bufio_n,
	SETTING_route, /* where the route of a request is: enum route */

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
	SERVER_HTTP2_END,
	CLIENT_BEGIN,
	CLIENT_FAILED,
	CLIENT_END,
	CLIENT_HTTP2_BEGIN,
	CLIENT_HTTP2_END,
	CLIENT_NO_HEADER,
};

enum route {
	ROUTE_NONE,
	ROUTE_TEXT,    /* Request.Pattern */
	ROUTE_PATTERN, /* Request.pat.str */
};

/* Adds the route that net/http has matched: an empty text if there is none. */
INLINE void note_route(struct note *n, u64 req)
{
	u64 at = 0;

	if (req && SETTING(route) == ROUTE_TEXT) {
		at = req + SETTING(req_pattern);
	} else if (req && SETTING(route) == ROUTE_PATTERN) {
		u64 pattern = note_read(n, req + SETTING(req_pat));

		at = pattern ? pattern + SETTING(pattern_str) : 0;
	}
	note_string(n, at);
}

enum { REQUEST_WORDS = 34 }; /* of a Request that are read at once, up to its context */

#define REQUEST_END (SETTING(req_ctx) + 16)
#define REQUEST(field, plus) PART_WORD(&n, part, req, 0, REQUEST_END, SETTING(field) + (plus))

/* Sends the begin of a request that is served. With HTTP/1, rw is the response that the handler writes. */
COMMON int begin_serving(u64 g, u64 rw, u64 req)
{
	u32 tid = target_thread();
	struct header_search found;
	struct loupe_context context;
	struct goroutine gr;
	struct note n;

	if (!tid)
		return 0;
	if (!read_any_g(&gr, g)) {
		unreadable(SET(kind));
		return 0;
	}
	if (!note_begin(&n, SERVER_BEGIN, tid, gr.id, 0))
		return 0;
	follow_begin(gr.id);

	PART(part, REQUEST_WORDS);

	READ_PART(&n, part, req, 0, REQUEST_END);

	u64 url = REQUEST(req_url, 0), major = REQUEST(req_proto_major, 0), minor = REQUEST(req_proto_major, 8), tls = REQUEST(req_tls, 0);
	u64 passed = REQUEST(req_ctx, 8);
	u64 method = REQUEST(req_method, 0), method_length = REQUEST(req_method, 8);
	u64 host = REQUEST(req_host, 0), host_length = REQUEST(req_host, 8);
	u64 remote = REQUEST(req_remote_addr, 0), remote_length = REQUEST(req_remote_addr, 8);

	header_find(&found, REQUEST(req_header, 0));
	context_serve(&context, gr.id, found.traceparents == 1 ? found.traceparent : 0, found.tracestates == 1 ? found.tracestate : 0,
		found.baggages == 1 ? found.baggage : 0, passed);
	note_context(&n, &context);
	note_word(&n, req);
	note_word(&n, passed);
	note_word(&n, major == 1 ? rw : 0); /* server_end has the request of this response */
	note_word(&n, (u8)major | (u8)minor << 8 | found.problems << 16 | (u64)found.traceparents << 32);
	note_word(&n, tls);
	note_string(&n, found.traceparent);
	note_text(&n, method, method_length);
	note_string(&n, url ? url + SETTING(url_path) : 0);
	note_text(&n, host, host_length);
	note_text(&n, remote, remote_length);
	note_string(&n, found.agent);
	note_carried(&n, &context, found.tracestates, found.baggages, found.tracestate);
	note_end(&n);
	return 0;
}

/* func (sh serverHandler) ServeHTTP(rw ResponseWriter, req *Request) */
PROBE(server_begin)
{
	if (!CALLED(server_begin))
		return 0;
	return begin_serving(CURRENT_G(server_begin), ARG(server_begin, 2, 16), ARG(server_begin, 3, 24));
}

/* func (sc *serverConn) runHandler(rw *responseWriter, req *http.Request, handler func(http.ResponseWriter, *http.Request)) */
PROBE(handler_begin)
{
	if (!CALLED(handler_begin))
		return 0;
	return begin_serving(CURRENT_G(handler_begin), ARG(handler_begin, 1, 8), ARG(handler_begin, 2, 16));
}

/* What is read at once of a conn, from curReq on, and of a response, from req on. */
enum {
	CONN_WORDS = 4,
	RESPONSE_WORDS = 16,
};

#define CONN_END ((SETTING(conn_hijacked) & ~7ull) + 8)
#define RESPONSE_END (SETTING(response_status) + 8)

/* func (c *conn) hijacked() bool, where (*conn).serve calls it after the handler */
PROBE(server_end)
{
	struct goroutine gr;
	struct note n;

	SHORT_NOTE_OR_RETURN(server_end, SERVER_END, &n, &gr, 64);
	follow_end(gr.id);

	u64 c = ARG(server_end, 0, 0), req = 0, status = 0, written = 0;
	PART(conn, CONN_WORDS);
	PART(part, RESPONSE_WORDS);

	READ_PART(&n, conn, c, SETTING(conn_cur_req), CONN_END);

	u64 w = PART_WORD(&n, conn, c, SETTING(conn_cur_req), CONN_END, SETTING(conn_cur_req));
	u64 hijacked = PART_WORD(&n, conn, c, SETTING(conn_cur_req), CONN_END, SETTING(conn_hijacked) & ~7ull) >> (SETTING(conn_hijacked) & 7) * 8;

	if (w) {
		READ_PART(&n, part, w, SETTING(response_req), RESPONSE_END);
		req = PART_WORD(&n, part, w, SETTING(response_req), RESPONSE_END, SETTING(response_req));
		written = PART_WORD(&n, part, w, SETTING(response_req), RESPONSE_END, SETTING(response_written));
		status = PART_WORD(&n, part, w, SETTING(response_req), RESPONSE_END, SETTING(response_status));
	}
	note_word(&n, req);
	note_word(&n, w);
	note_word(&n, status);
	note_word(&n, written);
	note_word(&n, (u8)hijacked);
	note_route(&n, req);
	note_end(&n);
	return 0;
}

/* func (w *http2responseWriter) handlerDone() */
PROBE(server_http2_end)
{
	struct goroutine gr;
	struct note n;

	SHORT_NOTE_OR_RETURN(server_http2_end, SERVER_HTTP2_END, &n, &gr, 32);
	follow_end(gr.id);

	u64 rws = note_read(&n, ARG(server_http2_end, 0, 0) + SETTING(http2_writer_state));
	u64 req = rws && SETTING(http2_state_req) ? note_read(&n, rws + SETTING(http2_state_req)) : 0;

	note_word(&n, rws ? note_read(&n, rws + SETTING(http2_state_status)) : 0);
	note_word(&n, rws ? note_read(&n, rws + SETTING(http2_state_written)) : 0);
	note_route(&n, req);
	note_end(&n);
	return 0;
}

/* Describes a request that is sent, by the addresses of its fields; req is 0 if it is not known. */
INLINE void note_sent(struct note *n, u64 req, u64 method, u64 url_at)
{
	u64 url = req ? note_read(n, url_at) : 0;

	note_word(n, req);
	note_string(n, req ? method : 0);
	note_string(n, url ? url + SETTING(url_scheme) : 0);
	note_string(n, url ? url + SETTING(url_host) : 0);
	note_string(n, url ? url + SETTING(url_path) : 0);
	note_string(n, url ? url + SETTING(url_raw_query) : 0);
}

/* Whether a request is one by which an exporter of OpenTelemetry sends telemetry: its User-Agent begins with "OTel OTL". */
INLINE u64 exports(const struct header_search *found)
{
	u64 agent[2] = {}, first = 0;

	if (!found->agent || read_foreign(agent, sizeof(agent), found->agent) || agent[1] < sizeof(first) || agent[1] >> 32 ||
	    read_foreign(&first, sizeof(first), agent[0]))
		return 0;
	return first == TEXT8('O', 'T', 'e', 'l', ' ', 'O', 'T', 'L');
}

/*
 * The context of a request that is sent, and the traceparent header that the program has set itself. If there is one, or if it is
 * uncertain whether there is, the request gets no other one. Those that export telemetry get none.
 */
#define NOTE_SENT_CONTEXT(n, send, goid, req, header_at, ctx_at)                               \
	do {                                                                                   \
		u64 passed = (req) ? note_read(n, (ctx_at) + 8) : 0;                           \
		struct header_search found = {};                                               \
		struct loupe_context context;                                                  \
                                                                                               \
		if (req)                                                                       \
			header_find(&found, note_read(n, header_at));                          \
		u64 telemetry = exports(&found);                                               \
                                                                                               \
		send(&context, goid, req,                                                      \
		     (!(req) || found.traceparents || found.problems || telemetry ? LOUPE_SILENT : 0) | \
			     (found.tracestates ? LOUPE_OWN_STATE : 0) |                       \
			     (found.baggages ? LOUPE_OWN_BAGGAGE : 0), passed);                \
		note_context(n, &context);                                                     \
		note_contexts(n, passed);                                                      \
		note_word(n, telemetry);                                                       \
		note_string(n, found.traceparents == 1 ? found.traceparent : 0);               \
	} while (0)

/* func (t *Transport) getConn(treq *transportRequest, cm connectMethod) (*persistConn, error): each attempt to send a request begins */
PROBE(client_begin)
{
	struct goroutine gr;
	struct note n;

	NOTE_OR_RETURN(client_begin, CLIENT_BEGIN, &n, &gr);
	follow_begin(gr.id); /* until Tracker.Release: the goroutine that ends an HTTP/2 request is known by its creation */

	u64 req = note_read(&n, ARG(client_begin, 1, 8) + SETTING(treq_request));

	NOTE_SENT_CONTEXT(&n, context_send, gr.id, req, req + SETTING(req_header), req + SETTING(req_ctx));
	note_sent(&n, req, req + SETTING(req_method), req + SETTING(req_url));
	note_end(&n);
	return 0;
}

/* func (cc *http2ClientConn) roundTrip(req *Request, ...) (*Response, error): after client_begin, or without it if there was a connection */
PROBE(client_http2_begin)
{
	struct goroutine gr;
	struct note n;

	NOTE_OR_RETURN(client_http2_begin, CLIENT_HTTP2_BEGIN, &n, &gr);
	follow_begin(gr.id);

	u64 req = ARG(client_http2_begin, 1, 8);

	NOTE_SENT_CONTEXT(&n, context_send_http2, gr.id, req, req + SETTING(http2_req_header), req + SETTING(http2_req_ctx));
	note_sent(&n, req, req + SETTING(http2_req_method), req + SETTING(http2_req_url));
	note_end(&n);
	return 0;
}

#if HAS_CONTEXTS
enum {
	HEADER_LINE = 13 + TRACEPARENT + 2, /* "Traceparent: ...\r\n" */
};

/* Why a request has no header. */
enum {
	BUFFER_UNKNOWN = 1, /* what it is written to is not a bufio.Writer in the heap, or has failed */
	BUFFER_FULL = 2,
	BUFFER_UNEXPECTED = 3, /* the buffer does not end with a line */
	CARRIED_MISSING = 16,  /* it has a header, but not all that it was to carry on */
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

/* getConn returns an error: the closure that it defers calls (*wantConn).cancel */
PROBE(client_failed)
{
	struct goroutine gr;
	struct note n;

	if (!RETURNS(client_failed))
		return 0;
	SHORT_NOTE_OR_RETURN(client_failed, CLIENT_FAILED, &n, &gr, 8);
	context_end_call(gr.id);

	u64 error = RESULT(client_failed, 1);

	note_word(&n, error ? note_read(&n, error + 8) : 0); /* the type in the itab */
	note_end(&n);
	return 0;
}

/* func (pc *persistConn) roundTrip(req *transportRequest) (*Response, error), where it returns */
PROBE(client_end)
{
	struct goroutine gr;
	struct note n;

	SHORT_NOTE_OR_RETURN(client_end, CLIENT_END, &n, &gr, 32);
	context_end_call(gr.id);

	u64 response = RESULT(client_end, 0), error = RESULT(client_end, 1), proto[2] = {};

	if (response && read_foreign(proto, sizeof(proto), response + SETTING(result_proto_major)))
		n.to->r.flags |= LOUPE_UNREADABLE;
	note_word(&n, error ? note_read(&n, error + 8) : 0);
	note_word(&n, response ? note_read(&n, response + SETTING(result_status)) : 0);
	note_word(&n, (u8)proto[0] | (u8)proto[1] << 8);
	note_end(&n);
	return 0;
}

/*
 * func (cs *clientStream) cleanupWriteRequest(err error), in a goroutine that was created to send the request: the response has been
 * received, or the request has failed
 */
PROBE(client_http2_end)
{
	struct goroutine gr;
	struct note n;

	SHORT_NOTE_OR_RETURN(client_http2_end, CLIENT_HTTP2_END, &n, &gr, 16);

	u64 cs = ARG(client_http2_end, 0, 0), error = ARG(client_http2_end, 1, 8);
	u64 response = note_read(&n, cs + SETTING(http2_stream_res));

	note_word(&n, error ? note_read(&n, error + 8) : 0);
	note_word(&n, response ? note_read(&n, response + SETTING(http2_res_status)) : 0);
	note_end(&n);
	return 0;
}
