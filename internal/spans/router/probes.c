//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Routes that routers have matched. The Go half is in decode.go, which reads the notes in the same order.
 */
enum loupe_probe {
	PROBE_serve_mux,
	PROBE_old_serve_mux,
	PROBE_gorilla,
	PROBE_old_gorilla,
	PROBE_chi,
	PROBE_gin,
	PROBE_echo,
	PROBE_new_echo,
	PROBE_COUNT,
};

/* Offsets of fields, where no comment says otherwise. */
enum loupe_setting {
	SETTING_serve_start, /* (*ServeMux).ServeHTTP: its address and size */
	SETTING_serve_size,
	SETTING_node_pattern,
	SETTING_pattern_str,
	SETTING_gorilla_group,  /* of a pointer to the group, before v1.7.0 */
	SETTING_group_path,
	SETTING_gorilla_path,   /* since v1.7.0; 0 before */
	SETTING_regexp_template,
	SETTING_chi_patterns,
	SETTING_chi_pattern,
	SETTING_gin_path,
	SETTING_echo_path,
	SETTING_echo_handler,
	SETTING_echo_start, /* the handlers of package echo for paths without a route: their address and size */
	SETTING_echo_size,
	SETTING_new_echo_path,
	SETTING_new_echo_route,
	SETTING_route_method,
	SETTING_COUNT,
};

enum loupe_table_id {
	TABLE_COUNT,
};

#include "set.h"

/* Kinds of notes. */
enum {
	ROUTE,       /* with one text */
	MUX_ROUTE,   /* the same, of an http.ServeMux */
	ROUTE_PARTS, /* with their number and that many texts */
	LONG_ROUTE,  /* the same, of the pieces of one text */
};

enum {
	MAX_PARTS = 8, /* parts of a route that are read */
	MAX_PIECES = 4, /* pieces of a long route that are read */
	MAX_FRAMES = 6, /* calls from (*ServeMux).ServeHTTP to the probe, and one */
	NOT_FOUND = 20, /* length of the method of routes in echo that are for paths without a route: "echo_route_not_found" */
};

/* Begins a note whose items begin in the first room bytes, or returns. */
#define BEGIN(probe, what, room)                                                               \
	struct goroutine gr;                                                                   \
	struct note n;                                                                         \
                                                                                               \
	SHORT_NOTE_OR_RETURN(probe, what, &n, &gr, room)

/*
 * Adds how deep a place is on the stack of the goroutine: the distance from the beginning of the stack, which stays the same when the
 * stack grows.
 */
INLINE void note_depth(struct note *n, const struct goroutine *gr, u64 sp)
{
	note_word(n, note_read(n, gr->g + CONFIG(g_stack) + 8) - sp);
}

/*
 * The depth of (*ServeMux).ServeHTTP where it calls what leads to the frame fp of a goroutine, whose stack is between two addresses; 0 if
 * it does not.
 */
FUNCTION u64 serving(u64 lo, u64 end, u64 fp)
{
	u64 hi = end - sizeof(struct frame);

	if (end < lo + sizeof(struct frame))
		return 0;
	for (u32 i = WALKABLE(lo, hi) ? 0 : MAX_FRAMES; i < MAX_FRAMES; i++) {
		struct frame f;

		if (fp - lo > hi - lo || read_frame(&f, fp))
			return 0;
		if (f.pc - SETTING(serve_start) < SETTING(serve_size))
			return end - fp - sizeof(struct frame);
		if (f.fp <= fp)
			return 0;
		fp = f.fp;
	}
	return 0;
}

/* Begins a note of a match of an http.ServeMux, with its depth. Returns 0 if the request that matches is not served. */
INLINE int begin_mux(struct note *n, struct goroutine *gr, u64 g, u64 fp)
{
	u32 tid = target_thread();
	u64 depth;

	if (!tid)
		return 0;
	if (!read_whole_g(gr, g)) {
		unreadable(SET(kind));
		return 0;
	}
	depth = serving(gr->stack_lo, gr->stack_hi, fp);
	if (!depth || !note_begin_in(n, 32, MUX_ROUTE, tid, gr->id, 0))
		return 0;
	note_word(n, depth);
	return 1;
}

/*
 * func exactMatch(n *routingNode, path string) bool, where (*ServeMux).matchOrRedirect calls it with what it has found. It calls it again
 * for the path with a slash. If that does not match exactly, its pattern is the same; else the mux redirects the request to it. Only
 * matches of requests that are served count: programs can also match a request without serving it.
 */
PROBE(serve_mux)
{
	struct goroutine gr;
	struct note n;
	u64 node = ARG(serve_mux, 0, 0);

	if (!node || !begin_mux(&n, &gr, CURRENT_G(serve_mux), frame_pointer(ctx)))
		return 0;

	u64 pattern = note_read(&n, node + SETTING(node_pattern));

	note_string(&n, pattern ? pattern + SETTING(pattern_str) : 0);
	note_end(&n);
	return 0;
}

/* func (mux *ServeMux) handler(host, path string) (h Handler, pattern string), where it returns */
PROBE(old_serve_mux)
{
	struct goroutine gr;
	struct note n;

	if (!RETURNS(old_serve_mux))
		return 0;

	u64 length = RESULT(old_serve_mux, 3);

	if (!length || !begin_mux(&n, &gr, CURRENT_G(old_serve_mux), frame_pointer(ctx)))
		return 0;
	note_text(&n, RESULT(old_serve_mux, 2), length);
	note_end(&n);
	return 0;
}

/*
 * Adds the template of a *mux.Route, in pieces because the patterns of variables can be long; one empty piece if it has no path. A template
 * that is too long is one piece, which is cut.
 */
INLINE void note_gorilla(struct note *n, u64 route)
{
	u64 path, text[2] = {}, count;

	if (SETTING(gorilla_path)) {
		path = note_read(n, route + SETTING(gorilla_path));
	} else {
		u64 group = note_read(n, route + SETTING(gorilla_group));

		path = group ? note_read(n, group + SETTING(group_path)) : 0;
	}
	if (path) {
		text[0] = note_read(n, path + SETTING(regexp_template));
		text[1] = note_read(n, path + SETTING(regexp_template) + 8);
	}
	count = text[1] > LOUPE_TEXT && text[1] <= MAX_PIECES * LOUPE_TEXT ? (text[1] + LOUPE_TEXT - 1) / LOUPE_TEXT : 1;
	note_word(n, count);
	for (u32 i = 0; i < MAX_PIECES; i++)
		if (i < count)
			note_text(n, text[0] + i * LOUPE_TEXT, i + 1 < count ? LOUPE_TEXT : text[1] - i * LOUPE_TEXT);
}

/* func requestWithRoute(r *http.Request, route *Route) *http.Request, which (*Router).ServeHTTP calls */
PROBE(gorilla)
{
	u64 route = ARG(gorilla, 1, 8);

	if (!route)
		return 0;
	BEGIN(gorilla, LONG_ROUTE, LOUPE_PAYLOAD);
	note_depth(&n, &gr, CALLER(gorilla));
	note_gorilla(&n, route);
	note_end(&n);
	return 0;
}

/*
 * func contextSet(r *http.Request, key, val interface{}) *http.Request, which (*Router).ServeHTTP calls for the variables with key 0, and
 * for the route with key 1
 */
PROBE(old_gorilla)
{
	u64 key = 0, route = ARG(old_gorilla, 4, 32);

	if (!route || read_foreign(&key, sizeof(key), ARG(old_gorilla, 2, 16)) || key != 1)
		return 0;
	BEGIN(old_gorilla, LONG_ROUTE, LOUPE_PAYLOAD);
	note_depth(&n, &gr, CALLER(old_gorilla));
	note_gorilla(&n, route);
	note_end(&n);
	return 0;
}

/* func (p *Pool) Put(x any), where (*Mux).ServeHTTP calls it with a *chi.Context after the handler */
PROBE(chi)
{
	u64 context = ARG(chi, 2, 16), pattern[2] = {}, parts[2] = {};

	if (!context || read_foreign(pattern, sizeof(pattern), context + SETTING(chi_pattern)) || !pattern[1] ||
	    read_foreign(parts, sizeof(parts), context + SETTING(chi_patterns)))
		return 0; /* a subrouter has no route for the path if pattern is empty */
	BEGIN(chi, ROUTE_PARTS, LOUPE_PAYLOAD);
	note_depth(&n, &gr, stack_pointer(ctx));
	note_word(&n, parts[1]);
	for (u32 i = 0; i < MAX_PARTS; i++)
		if (i < parts[1])
			note_string(&n, parts[0] + 16 * i);
	note_end(&n);
	return 0;
}

/* Sends the route whose string is at an address, which a router has in what it returns to a pool. */
#define SEND_ROUTE(probe, string)                                                              \
	do {                                                                                   \
		u64 text[2] = {};                                                              \
                                                                                               \
		if (read_foreign(text, sizeof(text), string) || !text[1])                      \
			return 0;                                                              \
		BEGIN(probe, ROUTE, 32);                                                       \
		note_depth(&n, &gr, stack_pointer(ctx));                                       \
		note_text(&n, text[0], text[1]);                                               \
		note_end(&n);                                                                  \
		return 0;                                                                      \
	} while (0)

/* The same in (*Engine).ServeHTTP with a *gin.Context */
PROBE(gin)
{
	u64 context = ARG(gin, 2, 16);

	if (!context)
		return 0;
	SEND_ROUTE(gin, context + SETTING(gin_path));
}

/* The same in (*Echo).ServeHTTP with an *echo.context. The path of a request without a route is that of the request, or of a similar route. */
PROBE(echo)
{
	u64 context = ARG(echo, 2, 16), handler = 0, code = 0;

	if (!context || read_foreign(&handler, sizeof(handler), context + SETTING(echo_handler)) || !handler ||
	    read_foreign(&code, sizeof(code), handler) || code - SETTING(echo_start) < SETTING(echo_size))
		return 0;
	SEND_ROUTE(echo, context + SETTING(echo_path));
}

/* The same in a function that (*Echo).serveHTTP defers, with an *echo.Context. A request without a route has one without a method. */
PROBE(new_echo)
{
	u64 context = ARG(new_echo, 2, 16), route = 0, method[2] = {};

	if (!context || read_foreign(&route, sizeof(route), context + SETTING(new_echo_route)) || !route ||
	    read_foreign(method, sizeof(method), route + SETTING(route_method)) || !method[1] || method[1] == NOT_FOUND)
		return 0;
	SEND_ROUTE(new_echo, context + SETTING(new_echo_path));
}
