//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Commands and pipelines of github.com/redis/go-redis. The Go half is in decode.go, which reads the notes in the same order.
 */
enum loupe_probe {
	PROBE_command,
	PROBE_batch,
	PROBE_node_batch,
	PROBE_node_transaction,
	PROBE_release,
	PROBE_release_to_pool,
	PROBE_failed,
	PROBE_batch_failed,
	PROBE_slept,
	PROBE_COUNT,
};

/* Offsets of fields, where no comment says otherwise. */
enum loupe_setting {
	SETTING_client_opt,
	SETTING_client_pool, /* of baseClient.connPool: an interface */
	SETTING_opt_addr,
	SETTING_opt_db,
	SETTING_opt_retries,
	SETTING_cmd_args,
	SETTING_node_client, /* of clusterNode.Client: a *Client, which begins with a *baseClient */
	SETTING_conn_net, /* of pool.Conn.netConn: an interface; 0: unknown */
	SETTING_conn_wrapped, /* 1: that is a pointer to a struct, which begins with an interface */
	SETTING_fd_remote, /* of net.netFD.raddr: an interface */
	SETTING_COUNT,
};

enum loupe_table_id {
	TABLE_COUNT,
};

#define LOUPE_TEXT 128
#include "contexts.h"

/* Kinds of notes. */
enum {
	COMMAND,
	BATCH,
	RELEASE,
	FAILED,
	BATCH_FAILED,
	SLEPT,
};

/* Kinds of batches. */
enum {
	BATCH_OF_CLIENT,
	BATCH_OF_NODE,
	TRANSACTION_OF_NODE,
};

enum {
	ARGS = 6, /* arguments of a command that are sent, with its name */
	COMPARED = 128, /* commands of a batch whose names are compared */
	KIND_SLICE = 23, /* of package reflect */
	KIND_STRING = 24,
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

/* The arguments of a command. Those that are not texts, or cannot be read, have the size 0. */
struct args {
	u64 count, sent;
	u64 at[ARGS], size[ARGS];
};

/*
 * Reads the header of an interface value that is a string or a slice of bytes. eBPF cannot read a page that the program has not accessed
 * yet, so the text is read, too. Returns whether that is possible.
 */
INLINE int read_text(u64 text[2], u64 type, u64 data)
{
	u64 word = peek(type + 16);
	u32 kind = word >> 56 & 31;
	u8 byte = 0;

	text[0] = text[1] = 0;
	if ((kind != KIND_STRING && kind != KIND_SLICE) || data < FIRST_PAGE || read_foreign(text, 16, data))
		return 0;
	return text[0] >= FIRST_PAGE && text[1] && !(text[1] >> 40) && !read_foreign(&byte, 1, text[0]) &&
	       !read_foreign(&byte, 1, text[0] + (text[1] > LOUPE_TEXT ? LOUPE_TEXT : text[1]) - 1);
}

/* Finds the first arguments of a command. */
FUNCTION int find_args(struct args *to, u64 cmd)
{
	u64 args[2] = {};

	if (!to) /* the verifier checks functions by themselves */
		return 0;
	to->count = to->sent = 0;
	if (cmd < FIRST_PAGE || read_foreign(args, sizeof(args), cmd + SETTING(cmd_args)) || args[1] >> 32)
		return 0;
	to->count = args[1];
	for (u32 i = 0; i < ARGS; i++) {
		u64 value[2] = {}, text[2];

		to->at[i] = to->size[i] = 0;
		if (i >= args[1])
			continue;
		to->sent = i + 1;
		if (read_foreign(value, sizeof(value), args[0] + 16 * i) || !read_text(text, value[0], value[1]))
			continue;
		to->at[i] = text[0];
		to->size[i] = text[1];
	}
	return 0;
}

/* Finds the name of a command in a slice of commands. */
INLINE int find_name(u64 name[2], u64 cmds, u64 i)
{
	u64 args[2] = {}, value[2] = {}, cmd = peek(cmds + 16 * i + 8);

	name[0] = name[1] = 0;
	if (!cmd || read_foreign(args, sizeof(args), cmd + SETTING(cmd_args)) || !args[1] || args[1] >> 32 || args[0] < FIRST_PAGE ||
	    read_foreign(value, sizeof(value), args[0]))
		return 0;
	return read_text(name, value[0], value[1]);
}

/* The first 8 bytes of a text. */
INLINE u64 first_bytes(const u64 text[2])
{
	u64 word = 0, size = text[1] < 8 ? text[1] : 8;

	OPAQUE(size);
	if (size > 8)
		size = 8;
	return size && !read_foreign(&word, size, text[0]) ? word : 0;
}

INLINE int same_text(const u64 a[2], const u64 b[2])
{
	u64 end[2];

	if (a[1] != b[1])
		return 0;
	if (a[0] == b[0])
		return 1;
	if (first_bytes(a) != first_bytes(b))
		return 0;
	if (a[1] <= 8)
		return 1;
	return a[1] <= 16 && !read_foreign(&end[0], 8, a[0] + a[1] - 8) && !read_foreign(&end[1], 8, b[0] + b[1] - 8) &&
	       end[0] == end[1];
}

#define MULTI ((u64)'m' | (u64)'u' << 8 | (u64)'l' << 16 | (u64)'t' << 24 | (u64)'i' << 32)

/* The commands of a batch. */
struct batch {
	u64 count;
	u64 wrapped; /* in MULTI and EXEC, which do not count */
	u64 same;    /* all have the same name */
	u64 name[2]; /* of the first one */
};

FUNCTION int find_batch(struct batch *to, u64 cmds, u64 count)
{
	u64 first = 0;

	if (!to)
		return 0;
	to->count = count;
	to->wrapped = to->same = 0;
	if (!find_name(to->name, cmds, 0))
		return 0;
	if (count >= 2 && to->name[1] == 5 && first_bytes(to->name) == MULTI) {
		to->wrapped = first = 1;
		to->count = count - 2;
		if (!find_name(to->name, cmds, 1))
			return 0;
	}
	to->same = to->count && to->count <= COMPARED;
	for (u32 i = 1; i < COMPARED; i++) {
		u64 name[2];

		if (i >= to->count || !to->same)
			break;
		if (!find_name(name, cmds, first + i) || !same_text(to->name, name))
			to->same = 0;
	}
	return 0;
}

/* Adds a text, without the part that is too long. */
INLINE void note_part(struct note *n, u64 at, u64 size) { note_text(n, at, size > LOUPE_TEXT ? LOUPE_TEXT : size); }

/* Adds how deep the stack of the goroutine is, which is the same if the stack moves. */
INLINE void note_depth(struct note *n, const struct goroutine *gr, u64 sp)
{
	note_word(n, note_read(n, gr->g + CONFIG(g_stack) + 8) - sp);
}

/* Adds what is known of a client. */
INLINE void note_client(struct note *n, const struct goroutine *gr, u64 client, u64 sp)
{
	u64 opt = peek(client + SETTING(client_opt)), addr[2] = {};
	u8 byte = 0;

	note_word(n, client);
	note_depth(n, gr, sp);
	note_word(n, type_in(peek(client + SETTING(client_pool))));
	note_word(n, opt ? peek(opt + SETTING(opt_db)) : 0);
	note_word(n, opt ? peek(opt + SETTING(opt_retries)) : 0);
	if (!opt || read_foreign(addr, sizeof(addr), opt + SETTING(opt_addr)) || !addr[1] || addr[1] > LOUPE_TEXT || read_foreign(&byte, 1, addr[0]) ||
	    read_foreign(&byte, 1, addr[0] + addr[1] - 1))
		addr[0] = addr[1] = 0;
	note_text(n, addr[0], addr[1]);
}

#define STACK_POINTER(probe) (stack_pointer(ctx) + (s64)SITE(probe).sp_moved)

/*
 * func (c *baseClient) process(ctx context.Context, cmd Cmder) error, or processWithRetry, which begins with the same arguments and is
 * not called if the command is answered by the cache of the client
 */
PROBE(command)
{
	u64 client = ARG(command, 0, 0), cmd = ARG(command, 4, 32);
	struct args args;
	struct goroutine gr;
	struct note n;

	find_args(&args, cmd);
	NOTE_OR_RETURN(command, COMMAND, &n, &gr);
	note_client(&n, &gr, client, STACK_POINTER(command));
	note_contexts(&n, ARG(command, 2, 16));
	note_word(&n, args.count);
	note_word(&n, args.sent);
	for (u32 i = 0; i < ARGS; i++)
		if (i < args.sent)
			note_part(&n, args.at[i], args.size[i]);
	note_end(&n);
	return 0;
}

#define NOTE_BATCH(probe, kind, client, cmds, length)                                          \
	do {                                                                                   \
		struct batch batch;                                                            \
		struct goroutine gr;                                                           \
		struct note n;                                                                 \
                                                                                               \
		find_batch(&batch, cmds, length);                                              \
		NOTE_OR_RETURN(probe, BATCH, &n, &gr);                                         \
		note_client(&n, &gr, client, STACK_POINTER(probe));                            \
		note_contexts(&n, ARG(probe, 2, 16));                                          \
		note_word(&n, kind);                                                           \
		note_word(&n, cmds);                                                           \
		note_word(&n, batch.count);                                                    \
		note_word(&n, batch.wrapped);                                                  \
		note_word(&n, batch.same);                                                     \
		note_part(&n, batch.same ? batch.name[0] : 0, batch.same ? batch.name[1] : 0); \
		note_end(&n);                                                                  \
	} while (0)

/* func (c *baseClient) generalProcessPipeline(ctx context.Context, cmds []Cmder, ...) error, and generalProcessPipelineFrom */
PROBE(batch)
{
	NOTE_BATCH(batch, BATCH_OF_CLIENT, ARG(batch, 0, 0), ARG(batch, 3, 24), ARG(batch, 4, 32));
	return 0;
}

/* func (c *ClusterClient) processPipelineNode(ctx context.Context, node *clusterNode, cmds []Cmder, failedCmds *cmdsMap) */
PROBE(node_batch)
{
	u64 client = peek(peek(ARG(node_batch, 3, 24) + SETTING(node_client)));

	NOTE_BATCH(node_batch, BATCH_OF_NODE, client, ARG(node_batch, 4, 32), ARG(node_batch, 5, 40));
	return 0;
}

/* func (c *ClusterClient) processTxPipelineNode(ctx context.Context, node *clusterNode, cmds []Cmder, ...) */
PROBE(node_transaction)
{
	u64 client = peek(peek(ARG(node_transaction, 3, 24) + SETTING(node_client)));

	NOTE_BATCH(node_transaction, TRANSACTION_OF_NODE, client, ARG(node_transaction, 4, 32), ARG(node_transaction, 5, 40));
	return 0;
}

/*
 * Adds an error: its type, its value, and the text with which an errors.errorString and an error of Redis begin. The Go half uses what its
 * type has.
 */
INLINE void note_error(struct note *n, u64 itab, u64 data)
{
	u64 text[2] = {};
	u8 byte = 0;

	if (!itab || data < FIRST_PAGE || read_foreign(text, sizeof(text), data) || text[0] < FIRST_PAGE || !text[1] || text[1] > 1024 ||
	    read_foreign(&byte, 1, text[0]) || read_foreign(&byte, 1, text[0] + (text[1] > LOUPE_TEXT ? LOUPE_TEXT : text[1]) - 1))
		text[0] = text[1] = 0;
	note_word(n, type_in(itab));
	note_word(n, itab ? data : 0);
	note_part(n, text[0], text[1]);
}

/*
 * Adds the remote address of a connection: its type and that of the connection, the word of a net.TCPAddr that is the port, and the text
 * with which a net.TCPAddr and a net.UnixAddr begin. The Go half uses them if it knows the types.
 */
INLINE void note_peer(struct note *n, u64 cn)
{
	u64 conn[2] = {}, addr[2] = {}, words[4] = {}, fd;
	u8 byte = 0;

	if (!SETTING(conn_net) || cn < FIRST_PAGE || read_foreign(conn, sizeof(conn), cn + SETTING(conn_net)))
		conn[1] = 0;
	if (SETTING(conn_wrapped) && (conn[1] < FIRST_PAGE || read_foreign(conn, sizeof(conn), conn[1])))
		conn[1] = 0;
	fd = peek(conn[1]);
	if (fd < FIRST_PAGE || read_foreign(addr, sizeof(addr), fd + SETTING(fd_remote)) || addr[1] < FIRST_PAGE ||
	    read_foreign(words, sizeof(words), addr[1]) || words[0] < FIRST_PAGE || !words[1] || words[1] > LOUPE_TEXT ||
	    read_foreign(&byte, 1, words[0]) || read_foreign(&byte, 1, words[0] + words[1] - 1))
		conn[0] = words[1] = 0;
	note_word(n, type_in(conn[0]));
	note_word(n, type_in(addr[0]));
	note_word(n, words[3]);
	note_text(n, words[0], words[1]);
}

#define NOTE_RELEASE(probe, itab, data, cn)                                                    \
	do {                                                                                   \
		struct goroutine gr;                                                           \
		struct note n;                                                                 \
                                                                                               \
		NOTE_OR_RETURN(probe, RELEASE, &n, &gr);                                       \
		note_word(&n, ARG(probe, 0, 0));                                               \
		note_error(&n, itab, data);                                                    \
		note_peer(&n, cn);                                                             \
		note_end(&n);                                                                  \
	} while (0)

/* func (c *baseClient) releaseConn(ctx context.Context, cn *pool.Conn, err error) */
PROBE(release)
{
	NOTE_RELEASE(release, ARG(release, 4, 32), ARG(release, 5, 40), ARG(release, 3, 24));
	return 0;
}

/* func (c *baseClient) releaseConnToPool(ctx context.Context, p pool.Pooler, cn *pool.Conn, err error) */
PROBE(release_to_pool)
{
	NOTE_RELEASE(release_to_pool, ARG(release_to_pool, 6, 48), ARG(release_to_pool, 7, 56), ARG(release_to_pool, 5, 40));
	return 0;
}

/* func shouldRetry(err error, retryTimeout bool) bool */
PROBE(failed)
{
	u64 itab = ARG(failed, 0, 0);
	struct goroutine gr;
	struct note n;

	if (!itab)
		return 0;
	NOTE_OR_RETURN(failed, FAILED, &n, &gr);
	note_depth(&n, &gr, STACK_POINTER(failed));
	note_error(&n, itab, ARG(failed, 1, 8));
	note_end(&n);
	return 0;
}

/* func setCmdsErr(cmds []Cmder, e error), where a batch fails */
PROBE(batch_failed)
{
	u64 itab = ARG(batch_failed, 3, 24);
	struct goroutine gr;
	struct note n;

	if (!itab)
		return 0;
	NOTE_OR_RETURN(batch_failed, BATCH_FAILED, &n, &gr);
	note_word(&n, ARG(batch_failed, 0, 0));
	note_error(&n, itab, ARG(batch_failed, 4, 32));
	note_end(&n);
	return 0;
}

/*
 * func Sleep(ctx context.Context, dur time.Duration) error, where it returns: the pause before another attempt is over, or the context has
 * ended
 */
PROBE(slept)
{
	struct goroutine gr;
	struct note n;

	if (!RETURNS(slept))
		return 0;

	u64 itab = RESULT(slept, 0);

	NOTE_OR_RETURN(slept, SLEPT, &n, &gr);
	note_depth(&n, &gr, STACK_POINTER(slept));
	note_error(&n, itab, RESULT(slept, 1));
	note_end(&n);
	return 0;
}
