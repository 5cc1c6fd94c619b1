//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Operations of package database/sql. The Go half is in decode.go, which reads the notes in the same order.
 */
enum loupe_probe {
	PROBE_db_query,
	PROBE_db_exec,
	PROBE_db_prepare,
	PROBE_db_begin,
	PROBE_db_ping,
	PROBE_conn_query,
	PROBE_conn_exec,
	PROBE_conn_prepare,
	PROBE_conn_begin,
	PROBE_conn_ping,
	PROBE_stmt_query,
	PROBE_stmt_exec,
	PROBE_tx_commit,
	PROBE_tx_rollback,
	PROBE_rows_open,
	PROBE_tx_open,
	PROBE_db_release,
	PROBE_tx_release,
	PROBE_tx_release_small,
	PROBE_conn_release,
	PROBE_retry,
	PROBE_COUNT,
};

/* Offsets of fields, where no comment says otherwise. */
enum loupe_setting {
	SETTING_db_connector,
	SETTING_conn_db, /* of driverConn.db */
	SETTING_stmt_db,
	SETTING_stmt_query,
	SETTING_tx_dc,
	SETTING_tx_ctx,
	SETTING_dsn_text,
	SETTING_dsn_driver,
	SETTING_pgx_name,
	SETTING_pgx_host,
	SETTING_pgx_port,
	SETTING_pgx_database,
	SETTING_mysql_config,
	SETTING_mysql_addr,
	SETTING_mysql_database,
	SETTING_await_start, /* address of (*Tx).awaitDone */
	SETTING_await_size,  /* size of (*Tx).awaitDone */
	SETTING_COUNT,
};

enum loupe_table_id {
	TABLE_databases,
	TABLE_COUNT,
};

#define LOUPE_PAYLOAD 512
#define LOUPE_TEXT 1024
#include "contexts.h"

/*
 * The databases by key. The value is the number of times that the database was described. eBPF cannot read a page that the program has
 * not accessed yet, such as that of a constant text, so a description whose texts cannot be read is sent again.
 */
TABLE(databases, 1)

enum {
	DESCRIPTIONS = 8, /* of a database, at most */
	MAX_PIECES = 4,   /* of a statement: those after the first one are only for its summary, and few statements have them */
};

/* Kinds of notes. */
enum {
	BEGIN,
	DATABASE,
	PART,
	END,
	RETRY,
	MORE, /* of the text of a statement that has begun */
};

/* Operations, and flags. */
enum {
	OP_QUERY,
	OP_EXEC,
	OP_PREPARE,
	OP_BEGIN,
	OP_PING,
	OP_COMMIT,
	OP_ROLLBACK,

	OP_RETRIES = 0x10,    /* may be attempted up to three times */
	OP_PARAMETERS = 0x20, /* the statement has parameters */
	OP_DISCARDS = 0x40,   /* the connection is discarded: the error on its release is not that of the operation */
};

/* Parts of a database. */
enum {
	PART_DSN,
	PART_PGX,
	PART_MYSQL_ADDR,
	PART_MYSQL_DATABASE,
	PART_PGX_HOST, /* and the port, in the upper half of the word */
	PART_PGX_DATABASE,
};

/* A word that need not be readable; 0 if it is not. */
INLINE u64 word_at(u64 addr)
{
	u64 word = 0;

	if (!addr || read_foreign(&word, sizeof(word), addr))
		return 0;
	return word;
}

/* The type of the value in an interface with methods, given the first of its words. */
INLINE u64 type_of(u64 itab) { return itab ? word_at(itab + 8) : 0; }

/*
 * Sends a string of a database. The note is not marked if it cannot be read, because its type is not known here. Returns whether it
 * could be read.
 */
FUNCTION int send_part(u64 goid, u64 tid, u64 key, u64 part, u64 at)
{
	struct note n;
	int read;

	if (!note_begin(&n, PART, tid, goid, 0))
		return 0;
	note_word(&n, key);
	note_word(&n, part);
	note_string(&n, at);
	read = !n.to->r.flags;
	n.to->r.flags = 0;
	note_end(&n);
	return read;
}

/*
 * Describes a database by what its connector may contain, which depends on its type, and the reader knows that. Returns whether the
 * texts that are most likely there could be read.
 */
FUNCTION int send_database(u64 goid, u64 tid, u64 key, u64 itab, u64 data)
{
	u64 config = word_at(data + SETTING(mysql_config)), type = type_of(itab);
	struct note n;
	int read;

	if (!note_begin(&n, DATABASE, tid, goid, 0))
		return 0;
	note_word(&n, key);
	note_word(&n, type);
	note_word(&n, type_of(word_at(data + SETTING(dsn_driver))));
	note_end(&n);
	read = send_part(goid, tid, key, PART_DSN, data + SETTING(dsn_text));
	read |= send_part(goid, tid, key, PART_PGX, data + SETTING(pgx_name));
	read |= send_part(goid, tid, key, PART_PGX_HOST | (word_at(data + SETTING(pgx_port)) & 0xffff) << 32, data + SETTING(pgx_host));
	send_part(goid, tid, key, PART_PGX_DATABASE, data + SETTING(pgx_database));
	send_part(goid, tid, key, PART_MYSQL_ADDR, config ? config + SETTING(mysql_addr) : 0);
	send_part(goid, tid, key, PART_MYSQL_DATABASE, config ? config + SETTING(mysql_database) : 0);
	return read && type;
}

/* Sends a piece of a statement. */
FUNCTION int send_more(u64 goid, u64 tid, u64 text, u64 length)
{
	struct note n;

	if (!note_begin(&n, MORE, tid, goid, 0))
		return 0;
	note_text(&n, text, length);
	note_end(&n);
	return 0;
}

/* What begins an operation. */
struct start {
	u64 g, operation, db;
	u64 passed;       /* the address of its context.Context, or 0 */
	u64 text, length; /* of the statement */
};

/* Sends the begin of an operation on a database, with its statement. */
FUNCTION int begin_operation(const struct start *s)
{
	u64 connector[2] = {}, key, *sent, db;
	u32 tid = target_thread();
	struct goroutine gr;
	struct note n;
	int added = 0;

	if (!s || !tid) /* the verifier checks functions by themselves */
		return 0;
	if (!read_any_g(&gr, s->g)) {
		unreadable(SET(kind));
		return 0;
	}
	db = s->db;
	if (db && read_foreign(connector, sizeof(connector), db + SETTING(db_connector)))
		connector[0] = connector[1] = 0;
	key = mix(fold(0, db), connector[1]);
	sent = find_databases(key, &added);
	if (connector[0] && (!sent || *sent < DESCRIPTIONS)) {
		int read = send_database(gr.id, tid, key, connector[0], connector[1]);

		if (sent)
			ADD(sent, 0, read ? DESCRIPTIONS : 1);
	}
	if (!note_begin(&n, BEGIN, tid, gr.id, 0))
		return 0;
	note_word(&n, s->operation);
	note_word(&n, db);
	note_word(&n, key);
	note_contexts(&n, s->passed);
	note_text(&n, s->text, s->length);
	note_end(&n);
	for (u32 i = 1; i < MAX_PIECES; i++)
		if (s->length > i * LOUPE_TEXT && !(s->length >> 47))
			send_more(gr.id, tid, s->text + i * LOUPE_TEXT, s->length - i * LOUPE_TEXT);
	return 0;
}

#define BEGIN_OPERATION(probe, ...)                                                            \
	do {                                                                                   \
		struct start s = {CURRENT_G(probe), __VA_ARGS__};                              \
                                                                                               \
		if (!CALLED(probe))                                                            \
			return 0;                                                              \
		return begin_operation(&s);                                                    \
	} while (0)

/* Sends the end of an operation. failed is 0 if it succeeded; itab is the first word of the error, 0 if unknown. */
FUNCTION int end_operation(u64 g, u64 failed, u64 itab)
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
	if (!note_begin(&n, END, tid, gr.id, 0))
		return 0;
	note_word(&n, failed);
	note_word(&n, type_of(itab));
	note_end(&n);
	return 0;
}

#define END_OPERATION(probe, failed, itab)                                                     \
	do {                                                                                   \
		if (!CALLED(probe))                                                            \
			return 0;                                                              \
		return end_operation(CURRENT_G(probe), failed, itab);                          \
	} while (0)

#define PARAMETERS(count) ((count) ? OP_PARAMETERS : 0)

/* func (db *DB) QueryContext(ctx context.Context, query string, args ...any) (*Rows, error) */
PROBE(db_query)
{
	BEGIN_OPERATION(db_query, OP_QUERY | OP_RETRIES | PARAMETERS(ARG(db_query, 6, 48)), ARG(db_query, 0, 0), ARG(db_query,
			2, 16), ARG(db_query, 3, 24), ARG(db_query, 4, 32));
}

/* func (db *DB) ExecContext(ctx context.Context, query string, args ...any) (Result, error) */
PROBE(db_exec)
{
	BEGIN_OPERATION(db_exec, OP_EXEC | OP_RETRIES | PARAMETERS(ARG(db_exec, 6, 48)), ARG(db_exec, 0, 0), ARG(db_exec, 2,
			16), ARG(db_exec, 3, 24), ARG(db_exec, 4, 32));
}

/* func (db *DB) PrepareContext(ctx context.Context, query string) (*Stmt, error) */
PROBE(db_prepare)
{
	BEGIN_OPERATION(db_prepare, OP_PREPARE | OP_RETRIES | OP_PARAMETERS, ARG(db_prepare, 0, 0), ARG(db_prepare, 2, 16),
			ARG(db_prepare, 3, 24), ARG(db_prepare, 4, 32));
}

/* func (db *DB) BeginTx(ctx context.Context, opts *TxOptions) (*Tx, error) */
PROBE(db_begin)
{
	BEGIN_OPERATION(db_begin, OP_BEGIN | OP_RETRIES, ARG(db_begin, 0, 0), ARG(db_begin, 2, 16), 0, 0);
}

/* func (db *DB) PingContext(ctx context.Context) error */
PROBE(db_ping)
{
	BEGIN_OPERATION(db_ping, OP_PING | OP_RETRIES, ARG(db_ping, 0, 0), ARG(db_ping, 2, 16), 0, 0);
}

/* The number of arguments of a statement: they are on the stack, or in registers from a number on. */
#if defined(__TARGET_ARCH_x86)
#define ARGUMENTS(probe, n) STACK_ARG(probe, 8)
#else
#define ARGUMENTS(probe, n) ARG(probe, (n) + 1, 0)
#endif

/*
 * func (db *DB) queryDC(ctx, txctx context.Context, dc *driverConn, releaseConn func(error), query string, args []any) (*Rows, error),
 * where a Tx or a Conn calls it
 */
PROBE(conn_query)
{
	BEGIN_OPERATION(conn_query, OP_QUERY | PARAMETERS(ARGUMENTS(conn_query, 9)), ARG(conn_query, 0, 0), ARG(conn_query, 2,
			16), ARG(conn_query, 7, 56), ARG(conn_query, 8, 64));
}

/* func (db *DB) execDC(ctx context.Context, dc *driverConn, release func(error), query string, args []any) (res Result, err error) */
PROBE(conn_exec)
{
	BEGIN_OPERATION(conn_exec, OP_EXEC | PARAMETERS(ARGUMENTS(conn_exec, 7)), ARG(conn_exec, 0, 0), ARG(conn_exec, 2, 16),
			ARG(conn_exec, 5, 40), ARG(conn_exec, 6, 48));
}

/*
 * func (db *DB) prepareDC(ctx context.Context, dc *driverConn, release func(error), cg stmtConnGrabber, query string) (*Stmt, error)
 */
PROBE(conn_prepare)
{
	BEGIN_OPERATION(conn_prepare, OP_PREPARE | OP_PARAMETERS, ARG(conn_prepare, 0, 0), ARG(conn_prepare, 2, 16),
			ARG(conn_prepare, 7, 56), ARG(conn_prepare, 8, 64));
}

/* func (db *DB) beginDC(ctx context.Context, dc *driverConn, release func(error), opts *TxOptions) (tx *Tx, err error) */
PROBE(conn_begin)
{
	BEGIN_OPERATION(conn_begin, OP_BEGIN, ARG(conn_begin, 0, 0), ARG(conn_begin, 2, 16), 0, 0);
}

/* func (db *DB) pingDC(ctx context.Context, dc *driverConn, release func(error)) error */
PROBE(conn_ping)
{
	BEGIN_OPERATION(conn_ping, OP_PING, ARG(conn_ping, 0, 0), ARG(conn_ping, 2, 16), 0, 0);
}

INLINE int begin_prepared(u64 g, u64 operation, u64 stmt, u64 passed)
{
	struct start s = {g, operation | OP_RETRIES | OP_PARAMETERS, word_at(stmt + SETTING(stmt_db)), passed, 0, 0};

	if (read_foreign(&s.text, 16, stmt + SETTING(stmt_query)))
		s.text = s.length = 0;
	return begin_operation(&s);
}

/* func (s *Stmt) QueryContext(ctx context.Context, args ...any) (*Rows, error) */
PROBE(stmt_query)
{
	if (!CALLED(stmt_query))
		return 0;
	return begin_prepared(CURRENT_G(stmt_query), OP_QUERY, ARG(stmt_query, 0, 0), ARG(stmt_query, 2, 16));
}

/* func (s *Stmt) ExecContext(ctx context.Context, args ...any) (Result, error) */
PROBE(stmt_exec)
{
	if (!CALLED(stmt_exec))
		return 0;
	return begin_prepared(CURRENT_G(stmt_exec), OP_EXEC, ARG(stmt_exec, 0, 0), ARG(stmt_exec, 2, 16));
}

/*
 * The context of the transaction of a connection, given the function that withLock calls: a closure of the *Tx and a result. 0 if it is not
 * found.
 */
FUNCTION u64 context_of_tx(u64 closure, u64 conn)
{
	u64 words[3] = {};

	if (read_foreign(words, sizeof(words), closure))
		return 0;
	for (u32 i = 1; i < 3; i++)
		if (conn && word_at(words[i] + SETTING(tx_dc)) == conn)
			return word_at(words[i] + SETTING(tx_ctx) + 8);
	return 0;
}

#define FINISH_TX(probe, operation)                                                            \
	do {                                                                                   \
		u64 conn = ARG(probe, 1, 8);                                                   \
                                                                                               \
		BEGIN_OPERATION(probe, operation, word_at(conn + SETTING(conn_db)), context_of_tx(ARG(probe, 2, 16), conn), 0, 0); \
	} while (0)

/* func withLock(lk sync.Locker, fn func()), where (*Tx).Commit calls it: lk is the *driverConn */
PROBE(tx_commit)
{
	FINISH_TX(tx_commit, OP_COMMIT);
}

/* The same where (*Tx).rollback calls it. (*Tx).awaitDone calls rollback when the context of the transaction has ended. */
PROBE(tx_rollback)
{
	u64 caller = read_word(frame_pointer(ctx) + 8);
	u64 discards = caller - SETTING(await_start) < SETTING(await_size) ? OP_DISCARDS : 0;

	FINISH_TX(tx_rollback, OP_ROLLBACK | discards);
}

/* func (rs *Rows) initContextClose(ctx, txctx context.Context): a query has succeeded */
PROBE(rows_open)
{
	END_OPERATION(rows_open, 0, 0);
}

/* (*DB).beginDC starts a goroutine: a transaction has begun */
PROBE(tx_open)
{
	END_OPERATION(tx_open, 0, 0);
}

/* func (db *DB) putConn(dc *driverConn, err error, resetSession bool). (*DB).conn calls it too, with resetSession = false */
PROBE(db_release)
{
	if (!(ARG(db_release, 4, 32) & 0xff))
		return 0;
	END_OPERATION(db_release, ARG(db_release, 2, 16), ARG(db_release, 2, 16));
}

/* func (tx *Tx) closemuRUnlockRelease(error), where the method value calls it */
PROBE(tx_release)
{
	END_OPERATION(tx_release, ARG(tx_release, 1, 8), ARG(tx_release, 1, 8));
}

/*
 * The method value of closemuRUnlockRelease, into which the compiler has inlined it. Where the probe is at the call that follows, the
 * first argument, the type of the error, has been overwritten.
 */
PROBE(tx_release_small)
{
	u64 itab = SITE(tx_release_small).sp_moved ? 0 : ARG(tx_release_small, 0, 0);

	END_OPERATION(tx_release_small, itab | ARG(tx_release_small, 1, 8), itab);
}

/* func (c *Conn) closemuRUnlockCondReleaseConn(err error), where the method value calls it */
PROBE(conn_release)
{
	END_OPERATION(conn_release, ARG(conn_release, 1, 8), ARG(conn_release, 1, 8));
}

/* Whether one of the words is at an address. */
INLINE int among(u64 word, u64 at)
{
	u64 words[8] = {};
	int found = 0;

	if (!at || read_foreign(words, sizeof(words), at))
		return 0;
	for (u32 i = 0; i < 8; i++)
		found |= words[i] == word;
	return found;
}

/*
 * Whether an error is another one or wraps it: the other is among the words of its value, as in a *fmt.wrapError, or in the slice that
 * its value begins with or that follows a string, as in a *errors.joinError and a *fmt.wrapErrors.
 */
INLINE int wraps(u64 error, u64 other)
{
	u64 words[3] = {};

	if (error == other || among(other, error))
		return 1;
	if (!error || read_foreign(words, sizeof(words), error))
		return 0;
	return among(other, words[0]) || among(other, words[2]);
}

/*
 * func Is(err, target error) bool, where an attempt of an operation has failed: there is another attempt if the error is driver.ErrBadConn.
 */
PROBE(retry)
{
	u64 itab = ARG(retry, 0, 0), again;
	struct goroutine gr;
	struct note n;

	if (!itab)
		return 0;
	again = wraps(ARG(retry, 1, 8), ARG(retry, 3, 24));
	NOTE_OR_RETURN(retry, RETRY, &n, &gr);
	note_word(&n, again);
	note_word(&n, type_of(itab));
	note_end(&n);
	return 0;
}
