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
	PROBE_server_unwound,
	PROBE_server_http2_unwound,
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
	SETTING_req_uri, /* RequestURI */
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
	SETTING_unwinds, /* 1: server_http2_unwound is attached */

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
	SERVER_UNWOUND,
};

#define SEPARATE (~0ull) /* instead of the length of a method */

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

/*
 * Adds the method and the path of a request that is served. With HTTP/1 the method is followed by a space and by what is requested, in the
 * first line of the request: that is one text, after the length of the method. Otherwise they are two texts. What is requested has a
 * query, too, so a long one is not read.
 */
INLINE void note_target(struct note *n, u64 method, u64 method_length, u64 uri, u64 uri_length, u64 url)
{
	u64 end = method_length + 1;

	if (uri - method == end && method_length < LOUPE_TEXT && uri_length < LOUPE_TEXT && end + uri_length <= LOUPE_TEXT) {
		note_word(n, method_length);
		note_text(n, method, end + uri_length);
	} else {
		note_word(n, SEPARATE);
		note_text(n, method, method_length);
		note_string(n, url ? url + SETTING(url_path) : 0);
	}
}

enum { REQUEST_WORDS = 34 }; /* of a Request that are read at once, up to its context */

#define REQUEST_END (SETTING(req_ctx) + 16)
#define REQUEST(field, plus) PART_WORD(&n, part->words, req, 0, REQUEST_END, SETTING(field) + (plus))

#if HAS_CONTEXTS
INLINE void serving_begin(u64 goid, u8 major, u64 req) {}
INLINE u64 serving_end(u64 goid) { return 0; }
#else
/*
 * The requests of HTTP/2 that goroutines serve, so that server_http2_unwound finds the route. If a request has no room, a panic of its
 * handler leaves it without a route.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 16);
	__type(key, u64);
	__type(value, u64);
} serving SEC(".maps");

INLINE void serving_begin(u64 goid, u8 major, u64 req)
{
	if (SETTING(unwinds) && major == 2)
		bpf_map_update_elem(&serving, &goid, &req, BPF_ANY);
}

/* Removes the request that a goroutine serves, and returns it. */
INLINE u64 serving_end(u64 goid)
{
	u64 *found = SETTING(unwinds) ? bpf_map_lookup_elem(&serving, &goid) : 0, req;

	if (!found)
		return 0;
	req = *found;
	bpf_map_delete_elem(&serving, &goid);
	return req;
}
#endif

#if HAS_CONTEXTS
#define SERVED(goid, major, method, length) goid
#else
/* The goroutine of a request that is served; 0 for what is no request: the preface of HTTP/2, and what the Go half refuses. */
INLINE u64 served(u64 goid, u8 major, u64 method, u64 length)
{
	u8 text[3] = {};

	if (!identify)
		return goid;
	if (!major || major > 3)
		return 0;
	if (major == 2 && length == 3 && !read_foreign(text, sizeof(text), method) && text[0] == 'P' && text[1] == 'R' && text[2] == 'I')
		return 0;
	return goid;
}
#define SERVED(goid, major, method, length) served(goid, major, method, length)
#endif

/* Sends the begin of a request that is served. With HTTP/1, rw is the response that the handler writes. */
COMMON int begin_serving(u64 g, u64 rw, u64 req)
{
	u32 tid = target_thread();
	struct header_search found;
	struct loupe_context context;
	struct note n;
	u64 goid;

	if (!tid)
		return 0;
	goid = goid_of(g); /* the whole g has no room on the stack of an eBPF program */
	if (!goid) {
		unreadable(SET(kind));
		return 0;
	}
	if (!note_begin(&n, SERVER_BEGIN, tid, goid, 0))
		return 0;
	follow_begin(g, goid);

	PART_IN_NOTE(&n, part, REQUEST_WORDS);
	READ_PART(&n, part->words, req, 0, REQUEST_END);

	u64 url = REQUEST(req_url, 0), major = REQUEST(req_proto_major, 0), minor = REQUEST(req_proto_major, 8), tls = REQUEST(req_tls, 0);
	u64 passed = REQUEST(req_ctx, 8), header = REQUEST(req_header, 0);
	u64 method = REQUEST(req_method, 0), method_length = REQUEST(req_method, 8);
	u64 host = REQUEST(req_host, 0), host_length = REQUEST(req_host, 8);
	u64 remote = REQUEST(req_remote_addr, 0), remote_length = REQUEST(req_remote_addr, 8);
	u64 uri = REQUEST(req_uri, 0), uri_length = REQUEST(req_uri, 8);

	serving_begin(goid, major, req);
	header_find(&found, header);
	NOTE_SERVED(&n, &context, SERVED(goid, major, method, method_length), found.traceparents == 1 ? found.traceparent : 0,
		found.tracestates == 1 ? found.tracestate : 0, found.baggages == 1 ? found.baggage : 0, passed);
	note_word(&n, req);
	note_word(&n, passed);
	note_word(&n, major == 1 ? rw : 0); /* server_end has the request of this response */
	note_word(&n, (u8)major | (u8)minor << 8 | found.problems << 16 | (u64)found.traceparents << 32);
	note_word(&n, tls);
	note_string(&n, found.traceparent);
	note_target(&n, method, method_length, uri, uri_length, url);
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

	END_NOTE_OR_RETURN(server_end, SERVER_END, &n, &gr, 64);
	follow_end(gr.g, gr.id);

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

/* Sends that a goroutine executes its deferred functions, with the request that it serves, or 0. */
INLINE void send_unwound(struct note *n, u64 req)
{
	note_word(n, CONFIG(follow)); /* whether the end of the goroutine is observed, too */
	note_word(n, req);
	note_route(n, req);
	note_end(n);
}

/* func (c *conn) hijacked() bool, where a function that (*conn).serve defers calls it: the connection ends, or a handler has panicked */
PROBE(server_unwound)
{
	struct goroutine gr;
	struct note n;

	SHORT_NOTE_OR_RETURN(server_unwound, SERVER_UNWOUND, &n, &gr, 32);

	u64 w = note_read(&n, ARG(server_unwound, 0, 0) + SETTING(conn_cur_req));

	send_unwound(&n, w ? note_read(&n, w + SETTING(response_req)) : 0);
	return 0;
}

/* func gorecover(argp uintptr) any, where a function that (*http2serverConn).runHandler defers calls it: the handler has panicked */
PROBE(server_http2_unwound)
{
	struct goroutine gr;
	struct note n;
	u64 req = 0;

	NOTE_AFTER_OR_RETURN(server_http2_unwound, SERVER_UNWOUND, &n, &gr, 32, req = serving_end(gr.id));
	send_unwound(&n, req);
	return 0;
}

/* func (w *http2responseWriter) handlerDone() */
PROBE(server_http2_end)
{
	struct goroutine gr;
	struct note n;

	/* The request is forgotten also if there is no room for the note. */
	NOTE_AFTER_OR_RETURN(server_http2_end, SERVER_HTTP2_END, &n, &gr, 32, identity_ends(gr.id); serving_end(gr.id));
	follow_end(gr.g, gr.id);

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
	follow_begin(gr.g, gr.id); /* until Tracker.Release: the goroutine that ends an HTTP/2 request is known by its creation */

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
	follow_begin(gr.g, gr.id);

	u64 req = ARG(client_http2_begin, 1, 8);

	NOTE_SENT_CONTEXT(&n, context_send_http2, gr.id, req, req + SETTING(http2_req_header), req + SETTING(http2_req_ctx));
	note_sent(&n, req, req + SETTING(http2_req_method), req + SETTING(http2_req_url));
	note_end(&n);
	return 0;
}

#include "inject.h"

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
