//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Requests that net/http serves and sends. The Go half is in decode.go, which reads the notes in the same order.
 */
enum loupe_probe {
	PROBE_server_begin,
	PROBE_server_end,
	PROBE_server_http2_end,
	PROBE_client_begin,
	PROBE_client_failed,
	PROBE_client_end,
	PROBE_client_http2_begin,
	PROBE_client_http2_end,
	PROBE_COUNT,
};

/* Offsets of fields, where no comment says otherwise. */
enum loupe_setting {
	SETTING_req_method,
	SETTING_req_url,
	SETTING_req_proto_major, /* followed by ProtoMinor */
	SETTING_req_header,
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
	SETTING_http2_req_method,
	SETTING_http2_req_url,
	SETTING_http2_req_header,
	SETTING_http2_stream_res,
	SETTING_http2_res_status,
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

/* func (sh serverHandler) ServeHTTP(rw ResponseWriter, req *Request) */
PROBE(server_begin)
{
	struct header_search found;
	struct goroutine gr;
	struct note n;

	NOTE_OR_RETURN(server_begin, SERVER_BEGIN, &n, &gr);
	follow_begin(gr.id);

	u64 rw = ARG(server_begin, 2, 16), req = ARG(server_begin, 3, 24), proto[2] = {};
	u64 url = note_read(&n, req + SETTING(req_url));

	if (read_foreign(proto, sizeof(proto), req + SETTING(req_proto_major)))
		n.to->r.flags |= LOUPE_UNREADABLE;
	header_find(&found, note_read(&n, req + SETTING(req_header)));
	note_word(&n, req);
	note_word(&n, proto[0] == 1 ? rw : 0);
	note_word(&n, proto[0] == 1 ? note_read(&n, rw + SETTING(response_req)) : req); /* must be equal */
	note_word(&n, (u8)proto[0] | (u8)proto[1] << 8 | found.problems << 16 | (u64)found.traceparents << 32);
	note_word(&n, note_read(&n, req + SETTING(req_tls)));
	note_string(&n, found.traceparent);
	note_string(&n, req + SETTING(req_method));
	note_string(&n, url ? url + SETTING(url_path) : 0);
	note_string(&n, req + SETTING(req_host));
	note_string(&n, req + SETTING(req_remote_addr));
	note_string(&n, found.agent);
	note_end(&n);
	return 0;
}

/* func (c *conn) hijacked() bool, where (*conn).serve calls it after the handler */
PROBE(server_end)
{
	struct goroutine gr;
	struct note n;

	NOTE_OR_RETURN(server_end, SERVER_END, &n, &gr);
	follow_end(gr.id);

	u64 c = ARG(server_end, 0, 0), w = note_read(&n, c + SETTING(conn_cur_req));
	u64 req = w ? note_read(&n, w + SETTING(response_req)) : 0;
	u8 hijacked = 0;

	if (read_foreign(&hijacked, 1, c + SETTING(conn_hijacked)))
		n.to->r.flags |= LOUPE_UNREADABLE;
	note_word(&n, req);
	note_word(&n, w);
	note_word(&n, w ? note_read(&n, w + SETTING(response_status)) : 0);
	note_word(&n, w ? note_read(&n, w + SETTING(response_written)) : 0);
	note_word(&n, hijacked);
	note_route(&n, req);
	note_end(&n);
	return 0;
}

/* func (w *http2responseWriter) handlerDone() */
PROBE(server_http2_end)
{
	struct goroutine gr;
	struct note n;

	NOTE_OR_RETURN(server_http2_end, SERVER_HTTP2_END, &n, &gr);
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
INLINE void note_sent(struct note *n, u64 req, u64 method, u64 url_at, u64 header_at)
{
	struct header_search found;
	u64 url = req ? note_read(n, url_at) : 0;

	header_find(&found, req ? note_read(n, header_at) : 0);
	note_word(n, req);
	note_word(n, found.problems << 16 | (u64)found.traceparents << 32);
	note_string(n, found.traceparent);
	note_string(n, req ? method : 0);
	note_string(n, url ? url + SETTING(url_scheme) : 0);
	note_string(n, url ? url + SETTING(url_host) : 0);
	note_string(n, url ? url + SETTING(url_path) : 0);
	note_string(n, url ? url + SETTING(url_raw_query) : 0);
}

/* func (t *Transport) getConn(treq *transportRequest, cm connectMethod) (*persistConn, error): each attempt to send a request begins */
PROBE(client_begin)
{
	struct goroutine gr;
	struct note n;

	NOTE_OR_RETURN(client_begin, CLIENT_BEGIN, &n, &gr);
	follow_begin(gr.id); /* until Tracker.Release: the goroutine that ends an HTTP/2 request is known by its creation */

	u64 req = note_read(&n, ARG(client_begin, 1, 8) + SETTING(treq_request));

	note_sent(&n, req, req + SETTING(req_method), req + SETTING(req_url), req + SETTING(req_header));
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

	note_sent(&n, req, req + SETTING(http2_req_method), req + SETTING(http2_req_url), req + SETTING(http2_req_header));
	note_end(&n);
	return 0;
}

/* getConn returns an error: the closure that it defers calls (*wantConn).cancel */
PROBE(client_failed)
{
	struct goroutine gr;
	struct note n;

	if (!RETURNS(client_failed))
		return 0;
	NOTE_OR_RETURN(client_failed, CLIENT_FAILED, &n, &gr);

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

	NOTE_OR_RETURN(client_end, CLIENT_END, &n, &gr);

	u64 response = RESULT(client_end, 0), error = RESULT(client_end, 1);

	note_word(&n, error ? note_read(&n, error + 8) : 0);
	note_word(&n, response ? note_read(&n, response + SETTING(result_status)) : 0);
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

	NOTE_OR_RETURN(client_http2_end, CLIENT_HTTP2_END, &n, &gr);

	u64 cs = ARG(client_http2_end, 0, 0), error = ARG(client_http2_end, 1, 8);
	u64 response = note_read(&n, cs + SETTING(http2_stream_res));

	note_word(&n, error ? note_read(&n, error + 8) : 0);
	note_word(&n, response ? note_read(&n, response + SETTING(http2_res_status)) : 0);
	note_end(&n);
	return 0;
}
