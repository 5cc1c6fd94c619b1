//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Operations of module github.com/jackc/pgx/v5. The Go half is in decode.go, which reads the notes in the same order.
 */
enum loupe_probe {
	PROBE_exec,
	PROBE_exec_end,
	PROBE_query,
	PROBE_rows_close,
	PROBE_reader_closed,
	PROBE_batch,
	PROBE_batch_close,
	PROBE_batch_end,
	PROBE_pipeline_close,
	PROBE_pipeline_end,
	PROBE_results_end,
	PROBE_copy,
	PROBE_copy_end,
	PROBE_prepare,
	PROBE_prepare_end,
	PROBE_pool_exec,
	PROBE_pool_query,
	PROBE_pool_query_row,
	PROBE_pool_batch,
	PROBE_pool_begin,
	PROBE_pool_copy,
	PROBE_pool_failed,
	PROBE_COUNT,
};

/* Offsets of fields. */
enum loupe_setting {
	SETTING_conn_pgconn,
	SETTING_pgconn_config,
	SETTING_pgconn_status,
	SETTING_config_host,
	SETTING_config_port,
	SETTING_config_database,
	SETTING_config_fallbacks,
	SETTING_fallback_host,
	SETTING_fallback_port,
	SETTING_error_code, /* of a pgconn.PgError */
	SETTING_rows_reader,
	SETTING_rows_err,
	SETTING_rows_closed,
	SETTING_rows_conn,
	SETTING_batch_queries,
	SETTING_queued_sql,
	SETTING_queued_arguments,
	SETTING_results_conn,
	SETTING_results_ended,
	SETTING_pipeline_conn,
	SETTING_pipeline_ended,
	SETTING_pool_config,
	SETTING_pool_conn_config, /* of a pgxpool.Config */
	SETTING_COUNT,
};

enum loupe_table_id {
	TABLE_servers,
	TABLE_COUNT,
};

#define LOUPE_PAYLOAD 512
#define LOUPE_TEXT 1024
#include "contexts.h"

/*
 * The configurations by key. The value is the number of times that a configuration was described. eBPF cannot read a page that the
 * program has not accessed yet, so a description whose text cannot be read is sent again.
 */
TABLE(servers, 1)

enum {
	DESCRIPTIONS = 8, /* of a configuration, at most */
	NAME_MAX = 63,    /* bytes of an identifier in PostgreSQL */
	BATCH_MAX = 64,   /* statements of a batch that are compared */
	BATCH_TEXTS = 8,  /* different statements of a batch that are reported */
	BUSY = 4,         /* connStatusBusy of package pgconn */
	CODE_SIZE = 5,    /* bytes of a SQLSTATE */
	FIRST_PAGE = 4096,
};

/* Kinds of notes. */
enum {
	BEGIN,
	SERVER,
	STATEMENT,
	END,
	ROWS_CLOSE,
	READER_CLOSED,
	BATCH_CLOSE,
	BATCH_END,
};

/* Operations, and flags. */
enum {
	OP_EXEC,
	OP_QUERY,
	OP_BATCH,
	OP_COPY,
	OP_PREPARE,
	OP_BEGIN, /* of a pool; on a connection, it is an OP_EXEC */

	OP_POOL = 0x10,      /* of a pool: it waits for a connection */
	OP_BUSY = 0x20,      /* the connection is busy */
	OP_ARGUMENTS = 0x40, /* the statement has arguments */
};

/* What need not be readable; 0 if it is not. Unlike note_read, these do not mark a note. */
#define PEEK(name, type)                                                                       \
	INLINE type name(u64 addr)                                                             \
	{                                                                                      \
		type value = 0;                                                                \
                                                                                               \
		return addr < FIRST_PAGE || read_foreign(&value, sizeof(value), addr) ? 0 : value; \
	}

PEEK(peek, u64)
PEEK(peek_byte, u8)
PEEK(peek_port, u16)

/* The type in the itab of an interface value; 0 for nil. */
INLINE u64 type_in(u64 itab) { return itab ? peek(itab + 8) : 0; }

/* The SQLSTATE in the string at an address, as a word; 0 if there is none. */
INLINE u64 sqlstate_at(u64 addr)
{
	u64 text[2] = {}, code = 0;

	if (addr < FIRST_PAGE || read_foreign(text, sizeof(text), addr) || text[1] != CODE_SIZE || read_foreign(&code, CODE_SIZE, text[0]))
		return 0;
	return code;
}

/*
 * Adds an error: its type, its code as if it was a pgconn.PgError, and the same for what would be an error in its value: at the begin,
 * after a string, and after two strings. The Go half uses what its type has.
 */
INLINE void note_error(struct note *n, u64 itab, u64 data)
{
	note_word(n, type_in(itab));
	note_word(n, itab ? sqlstate_at(data + SETTING(error_code)) : 0);
	for (u32 i = 0; i < 3; i++) {
		u64 inner[2] = {};

		if (!itab || data < FIRST_PAGE || read_foreign(inner, sizeof(inner), data + 16 * i))
			inner[0] = inner[1] = 0;
		note_word(n, inner[0] >= FIRST_PAGE ? type_in(inner[0]) : 0);
		note_word(n, inner[1] >= FIRST_PAGE ? sqlstate_at(inner[1] + SETTING(error_code)) : 0);
	}
}

/* Adds the string at an address if it is as short as a name. */
INLINE void note_name(struct note *n, u64 addr)
{
	u64 text[2] = {};

	if (addr < FIRST_PAGE || read_foreign(text, sizeof(text), addr) || text[1] > NAME_MAX)
		text[0] = text[1] = 0;
	note_text(n, text[0], text[1]);
}

/* Sends what is known of a server: its address, the last one of those that pgx uses if it fails, and the database. */
FUNCTION int send_server(u64 goid, u64 tid, u64 key, u64 config)
{
	u64 fallbacks[2] = {}, last;
	struct note n;
	int read;

	if (!note_begin(&n, SERVER, tid, goid, 0))
		return 0;
	if (read_foreign(fallbacks, sizeof(fallbacks), config + SETTING(config_fallbacks)))
		fallbacks[0] = fallbacks[1] = 0;
	last = fallbacks[1] ? peek(fallbacks[0] + 8 * (fallbacks[1] - 1)) : 0;
	note_word(&n, key);
	note_word(&n, peek_port(config + SETTING(config_port)) | (u64)(last ? peek_port(last + SETTING(fallback_port)) : 0) << 16 | (u64)!!last << 32);
	note_name(&n, last ? last + SETTING(fallback_host) : 0);
	note_name(&n, config + SETTING(config_database));
	note_string(&n, config + SETTING(config_host));
	read = !n.to->r.flags;
	n.to->r.flags = 0;
	note_end(&n);
	return read;
}

/* Describes a configuration if it is new. Returns its key. */
FUNCTION u64 describe(u64 goid, u64 tid, u64 config)
{
	u64 key, *sent;
	int added = 0;

	if (config < FIRST_PAGE)
		return 0;
	key = mix(fold(0, config), peek(config + SETTING(config_host)));
	sent = find_servers(key, &added);
	if (!sent || *sent < DESCRIPTIONS) {
		int read = send_server(goid, tid, key, config);

		if (sent)
			ADD(sent, 0, read ? DESCRIPTIONS : 1);
	}
	return key;
}

/* What begins an operation. */
struct start {
	u64 g, op;
	u64 conn;       /* a pgx.Conn */
	u64 pgconn;     /* or a pgconn.PgConn, */
	u64 pool;       /* or a pgxpool.Pool */
	u64 passed;     /* the address of its context.Context */
	u64 size;       /* statements of a batch */
	u64 names;      /* strings: the identifier of the table of a copy, the name of a prepared statement */
	u64 name_count;
	u64 text, length; /* of the statement */
};

/* Sends the begin of an operation. */
FUNCTION int begin_operation(const struct start *s)
{
	u64 config, key, conn, op, names;
	u32 tid = target_thread();
	struct goroutine gr;
	struct note n;

	if (!s || !tid) /* the verifier checks functions by themselves */
		return 0;
	if (!read_any_g(&gr, s->g)) {
		unreadable(SET(kind));
		return 0;
	}
	op = s->op;
	conn = s->conn ? peek(s->conn + SETTING(conn_pgconn)) : s->pgconn;
	config = conn ? peek(conn + SETTING(pgconn_config)) : 0;
	if (s->pool) {
		config = peek(s->pool + SETTING(pool_config));
		config = config ? peek(config + SETTING(pool_conn_config)) : 0;
		op |= OP_POOL;
	}
	if (conn && peek_byte(conn + SETTING(pgconn_status)) == BUSY)
		op |= OP_BUSY;
	key = describe(gr.id, tid, config);
	if (!note_begin(&n, BEGIN, tid, gr.id, 0))
		return 0;
	names = s->name_count > 3 ? s->names + 16 * (s->name_count - 3) : s->names;
	note_word(&n, op);
	note_word(&n, conn);
	note_word(&n, key);
	note_word(&n, s->size);
	note_contexts(&n, s->passed);
	note_word(&n, s->text);
	note_name(&n, s->name_count > 0 ? names : 0);
	note_name(&n, s->name_count > 1 ? names + 16 : 0);
	note_name(&n, s->name_count > 2 ? names + 32 : 0);
	note_text(&n, s->text, s->length);
	note_end(&n);
	return 0;
}

#define ARGUMENTS(count) ((count) ? OP_ARGUMENTS : 0)

#define BEGIN_OPERATION(probe, ...)                                                            \
	do {                                                                                   \
		struct start s = {__VA_ARGS__};                                                \
                                                                                               \
		if (!CALLED(probe))                                                            \
			return 0;                                                              \
		s.g = CURRENT_G(probe);                                                        \
		s.passed = ARG(probe, 2, 16);                                                  \
		return begin_operation(&s);                                                    \
	} while (0)

/* Sends an error, of which the first word is 0 if there is none. */
FUNCTION int send_error(u64 g, u64 what, u64 op, u64 itab, u64 data)
{
	u32 tid = target_thread();
	struct goroutine gr;
	struct note n;

	if (!tid)
		return 0;
	if (!read_any_g(&gr, g)) {
		unreadable(SET(kind));
		return 0;
	}
	if (!note_begin(&n, what, tid, gr.id, 0))
		return 0;
	note_word(&n, op);
	note_error(&n, itab, data);
	note_end(&n);
	return 0;
}

/* func (c *Conn) Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error) */
PROBE(exec)
{
	BEGIN_OPERATION(exec, .op = OP_EXEC | ARGUMENTS(ARG(exec, 6, 48)), .conn = ARG(exec, 0, 0), .text = ARG(exec, 3, 24),
			.length = ARG(exec, 4, 32));
}

/* After its call of exec, which has the same results */
PROBE(exec_end)
{
	return send_error(CURRENT_G(exec_end), END, OP_EXEC, RESULT(exec_end, 2), RESULT(exec_end, 3));
}

/* func (c *Conn) Query(ctx context.Context, sql string, args ...any) (Rows, error) */
PROBE(query)
{
	BEGIN_OPERATION(query, .op = OP_QUERY | ARGUMENTS(ARG(query, 6, 48)), .conn = ARG(query, 0, 0), .text = ARG(query, 3, 24),
			.length = ARG(query, 4, 32));
}

/* func (rows *baseRows) Close(), which is called again for rows that are closed */
PROBE(rows_close)
{
	u64 rows = ARG(rows_close, 0, 0), conn = peek(rows + SETTING(rows_conn)), error[2] = {};
	struct goroutine gr;
	struct note n;

	if (!conn || peek_byte(rows + SETTING(rows_closed)))
		return 0;
	NOTE_OR_RETURN(rows_close, ROWS_CLOSE, &n, &gr);
	if (read_foreign(error, sizeof(error), rows + SETTING(rows_err)))
		error[0] = error[1] = 0;
	note_word(&n, peek(conn + SETTING(conn_pgconn)));
	note_word(&n, !!peek(rows + SETTING(rows_reader)));
	note_error(&n, error[0], error[1]);
	note_end(&n);
	return 0;
}

/* After func (rr *ResultReader) Close() (CommandTag, error), where rows call it */
PROBE(reader_closed)
{
	return send_error(CURRENT_G(reader_closed), READER_CLOSED, OP_QUERY, RESULT(reader_closed, 2), RESULT(reader_closed, 3));
}

/* A statement of a batch. */
struct queued {
	u64 text, length, arguments;
};

INLINE int read_queued(struct queued *to, u64 query)
{
	u64 sql[2] = {};

	if (query < FIRST_PAGE || read_foreign(sql, sizeof(sql), query + SETTING(queued_sql)))
		return 0;
	to->text = sql[0];
	to->length = sql[1];
	to->arguments = !!peek(query + SETTING(queued_arguments) + 8);
	return 1;
}

/* Returns the number of statements that are the same as the first one, at most BATCH_MAX and at most count. 0 if that cannot be read. */
FUNCTION u64 count_statements(u64 queries, u64 count)
{
	struct queued first = {}, next = {};
	u64 n = 0;

	if (!count || !read_queued(&first, peek(queries)))
		return 0;
	for (u32 i = 1; i < BATCH_MAX && i < count; i++) {
		if (!read_queued(&next, peek(queries + 8 * i)) || next.text != first.text || next.length != first.length ||
		    next.arguments != first.arguments)
			break;
		n = i;
	}
	return n + 1;
}

/* Sends a statement of a batch with the number of times that it is repeated. */
FUNCTION int send_statement(u64 goid, u64 tid, u64 queries, u64 repeats)
{
	struct queued q = {};
	struct note n;

	if (!read_queued(&q, peek(queries)) || !note_begin(&n, STATEMENT, tid, goid, 0))
		return 0;
	note_word(&n, repeats);
	note_word(&n, q.arguments);
	note_word(&n, q.text);
	note_text(&n, q.text, q.length);
	note_end(&n);
	return 0;
}

/* Sends the first statements of a batch. */
FUNCTION int send_statements(u64 g, u64 queries, u64 count)
{
	u32 tid = target_thread();
	struct goroutine gr;

	if (!tid || !read_any_g(&gr, g))
		return 0;
	for (u32 i = 0; i < BATCH_TEXTS && count; i++) {
		u64 n = count_statements(queries, count);

		if (!n || n > count)
			return 0;
		send_statement(gr.id, tid, queries, n);
		queries += 8 * n;
		count -= n;
	}
	return 0;
}

/* A batch begins with the slice of its queries. It is sent if it has any. */
INLINE int begin_batch(u64 g, u64 conn, u64 pool, u64 passed, u64 batch)
{
	u64 queries[2] = {};
	struct start s = {.g = g, .op = OP_BATCH, .conn = conn, .pool = pool, .passed = passed};

	if (batch < FIRST_PAGE || read_foreign(queries, sizeof(queries), batch + SETTING(batch_queries)) || !queries[1])
		return 0;
	send_statements(g, queries[0], queries[1]);
	s.size = queries[1];
	return begin_operation(&s);
}

/* func (c *Conn) SendBatch(ctx context.Context, b *Batch) BatchResults */
PROBE(batch)
{
	if (!CALLED(batch))
		return 0;
	return begin_batch(CURRENT_G(batch), ARG(batch, 0, 0), 0, ARG(batch, 2, 16), ARG(batch, 3, 24));
}

/* Sends that results are being closed. ended is an address: whether they were closed before. */
FUNCTION int close_results(u64 g, u64 conn, u64 ended)
{
	u32 tid = target_thread();
	struct goroutine gr;
	struct note n;

	if (!tid || !read_any_g(&gr, g) || !note_begin(&n, BATCH_CLOSE, tid, gr.id, 0))
		return 0;
	note_word(&n, conn ? peek(conn + SETTING(conn_pgconn)) : 0);
	note_word(&n, peek_byte(ended));
	note_end(&n);
	return 0;
}

/* func (br *batchResults) Close() error */
PROBE(batch_close)
{
	u64 results = ARG(batch_close, 0, 0);

	if (!CALLED(batch_close))
		return 0;
	return close_results(CURRENT_G(batch_close), peek(results + SETTING(results_conn)), results + SETTING(results_ended));
}

PROBE(batch_end)
{
	if (!RETURNS(batch_end))
		return 0;
	return send_error(CURRENT_G(batch_end), BATCH_END, OP_BATCH, RESULT(batch_end, 0), RESULT(batch_end, 1));
}

/* func (br *pipelineBatchResults) Close() error */
PROBE(pipeline_close)
{
	u64 results = ARG(pipeline_close, 0, 0);

	if (!CALLED(pipeline_close))
		return 0;
	return close_results(CURRENT_G(pipeline_close), peek(results + SETTING(pipeline_conn)), results + SETTING(pipeline_ended));
}

PROBE(pipeline_end)
{
	if (!RETURNS(pipeline_end))
		return 0;
	return send_error(CURRENT_G(pipeline_end), BATCH_END, OP_BATCH, RESULT(pipeline_end, 0), RESULT(pipeline_end, 1));
}

/* func invalidateCachesOnBatchResultsError(conn *Conn, b *Batch, err error), where the functions that these defer call it */
PROBE(results_end)
{
	return send_error(CURRENT_G(results_end), BATCH_END, OP_BATCH, ARG(results_end, 2, 16), ARG(results_end, 3, 24));
}

/* func (c *Conn) CopyFrom(ctx context.Context, tableName Identifier, columnNames []string, rowSrc CopyFromSource) (int64, error) */
PROBE(copy)
{
	BEGIN_OPERATION(copy, .op = OP_COPY, .conn = ARG(copy, 0, 0), .names = ARG(copy, 3, 24), .name_count = ARG(copy, 4, 32));
}

/* After func (pgConn *PgConn) CopyFrom(ctx context.Context, r io.Reader, sql string) (CommandTag, error) */
PROBE(copy_end)
{
	return send_error(CURRENT_G(copy_end), END, OP_COPY, RESULT(copy_end, 2), RESULT(copy_end, 3));
}

/*
 * func (pgConn *PgConn) Prepare(ctx context.Context, name, sql string, paramOIDs []uint32) (*StatementDescription, error), where
 * (*Conn).Prepare calls it
 */
PROBE(prepare)
{
	u64 name[2] = {ARG(prepare, 3, 24), ARG(prepare, 4, 32)};
	u64 pgconn = ARG(prepare, 0, 0), config, key;
	struct goroutine gr;
	struct note n;
	u32 tid = target_thread();

	if (!tid || !CALLED(prepare))
		return 0;
	if (!read_any_g(&gr, CURRENT_G(prepare))) {
		unreadable(SET(kind));
		return 0;
	}
	config = peek(pgconn + SETTING(pgconn_config));
	key = describe(gr.id, tid, config);
	if (!note_begin(&n, BEGIN, tid, gr.id, 0))
		return 0;
	note_word(&n, OP_PREPARE | (peek_byte(pgconn + SETTING(pgconn_status)) == BUSY ? OP_BUSY : 0));
	note_word(&n, pgconn);
	note_word(&n, key);
	note_word(&n, 0);
	note_contexts(&n, ARG(prepare, 2, 16));
	note_word(&n, ARG(prepare, 5, 40));
	note_text(&n, name[0], name[1] > NAME_MAX ? 0 : name[1]);
	note_text(&n, 0, 0);
	note_text(&n, 0, 0);
	note_text(&n, ARG(prepare, 5, 40), ARG(prepare, 6, 48));
	note_end(&n);
	return 0;
}

PROBE(prepare_end)
{
	return send_error(CURRENT_G(prepare_end), END, OP_PREPARE, RESULT(prepare_end, 1), RESULT(prepare_end, 2));
}

/* func (p *Pool) Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error) */
PROBE(pool_exec)
{
	BEGIN_OPERATION(pool_exec, .op = OP_EXEC | ARGUMENTS(ARG(pool_exec, 6, 48)), .pool = ARG(pool_exec, 0, 0), .text = ARG(pool_exec, 3, 24),
			.length = ARG(pool_exec, 4, 32));
}

/* func (p *Pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) */
PROBE(pool_query)
{
	BEGIN_OPERATION(pool_query, .op = OP_QUERY | ARGUMENTS(ARG(pool_query, 6, 48)), .pool = ARG(pool_query, 0, 0), .text = ARG(pool_query, 3, 24),
			.length = ARG(pool_query, 4, 32));
}

/* func (p *Pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row */
PROBE(pool_query_row)
{
	BEGIN_OPERATION(pool_query_row, .op = OP_QUERY | ARGUMENTS(ARG(pool_query_row, 6, 48)), .pool = ARG(pool_query_row, 0, 0),
			.text = ARG(pool_query_row, 3, 24), .length = ARG(pool_query_row, 4, 32));
}

/* func (p *Pool) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults */
PROBE(pool_batch)
{
	if (!CALLED(pool_batch))
		return 0;
	return begin_batch(CURRENT_G(pool_batch), 0, ARG(pool_batch, 0, 0), ARG(pool_batch, 2, 16), ARG(pool_batch, 3, 24));
}

/* func (p *Pool) BeginTx(ctx context.Context, txOptions pgx.TxOptions) (pgx.Tx, error) */
PROBE(pool_begin)
{
	BEGIN_OPERATION(pool_begin, .op = OP_BEGIN, .pool = ARG(pool_begin, 0, 0));
}

/*
 * func (p *Pool) CopyFrom(ctx context.Context, tableName pgx.Identifier, columnNames []string, rowSrc pgx.CopyFromSource) (int64, error)
 */
PROBE(pool_copy)
{
	BEGIN_OPERATION(pool_copy, .op = OP_COPY, .pool = ARG(pool_copy, 0, 0), .names = ARG(pool_copy, 3, 24), .name_count = ARG(pool_copy, 4, 32));
}

/* After func (p *Pool) Acquire(ctx context.Context) (*Conn, error), where these call it */
PROBE(pool_failed)
{
	u64 itab = RESULT(pool_failed, 1);

	if (!itab)
		return 0;
	return send_error(CURRENT_G(pool_failed), END, OP_POOL, itab, RESULT(pool_failed, 2));
}
