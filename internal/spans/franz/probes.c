//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records of github.com/twmb/franz-go. The Go half is in decode.go, which reads the notes in the same order.
 */
enum loupe_probe {
	PROBE_send_begin,
	PROBE_send_end,
	PROBE_ask,
	PROBE_receive,
	PROBE_buffer,
	PROBE_COUNT,
};

/* Offsets of fields, where no comment says otherwise. */
enum loupe_setting {
	SETTING_record_key,
	SETTING_record_value,
	SETTING_record_headers,
	SETTING_record_topic,
	SETTING_record_partition,
	SETTING_record_offset,
	SETTING_buffer_limit, /* of a recBuf: the bytes of the largest batch */
	SETTING_fetch_topics,
	SETTING_topic_name,
	SETTING_topic_partitions,
	SETTING_topic_size, /* bytes */
	SETTING_partition_number,
	SETTING_partition_records,
	SETTING_partition_size, /* bytes */
	SETTING_client_id,
	SETTING_client_brokers,
	SETTING_client_group,
	SETTING_client_topic, /* the default topic */
	SETTING_client_transactional,
	SETTING_client_transaction, /* not 0: it is in a transaction */
	SETTING_error_name,
	SETTING_close_start, /* the address of the method that closes a client and drops what it has fetched, */
	SETTING_close_size,  /* and its size */
	SETTING_direct, /* 1: Produce calls the promise of a record without a topic, or without a transaction, itself */
	SETTING_COUNT,
};

enum loupe_table_id {
	TABLE_COUNT,
};

#define LOUPE_PAYLOAD 2048
#include "contexts.h"
#include "kafka.h"
#include "loans.h"

/* Kinds of notes. */
enum {
	SEND_BEGIN,
	SEND_END,
	ASK,
	PARENT, /* of a record, before RECEIVE */
	RECEIVE,
	NO_HEADER,
};

enum {
	STEPS = 256,   /* fetches, topics, partitions and searched records of a poll that are visited */
	MAX_PARENTS = 64, /* records of a poll whose headers are searched */
	FETCH_SIZE = 24,
	ALL_EQUAL = 1, /* flags of a poll: its records have the same topic, */
	CUT = 2,       /* it has more than was visited, */
	UNSEARCHED = 4, /* and some headers of its records were not searched */
	NO_PARTITION = 0xffffffff,
};

/* func (cl *Client) produce(ctx context.Context, r *Record, promise func(*Record, error), block bool), and Produce before v1.4.0 */
PROBE(send_begin)
{
	u64 client = ARG(send_begin, 0, 0), record = ARG(send_begin, 3, 24), headers[2] = {};
	struct kafka_search found = {};
	struct loupe_context context;
	struct goroutine gr;
	struct note n;
	int silent = 1;

	if (SETTING(direct) && !peek(record + SETTING(record_topic) + 8) && !peek(client + SETTING(client_topic) + 8))
		return 0;
	if (SETTING(direct) && peek(client + SETTING(client_transactional)) && !(u32)peek(client + SETTING(client_transaction)))
		return 0;
	NOTE_OR_RETURN(send_begin, SEND_BEGIN, &n, &gr);
	if (LENDS && !read_foreign(headers, sizeof(headers), record + SETTING(record_headers))) {
		silent = headers[1] != 0;
		kafka_find(&found, headers[0], headers[1], KAFKA_TEXT_KEYS);
	}
	context_post(&context, gr.id, record, silent ? LOUPE_SILENT : 0, ARG(send_begin, 2, 16));
	note_context(&n, &context);
	note_word(&n, found.count);
	note_contexts(&n, ARG(send_begin, 2, 16));
	note_word(&n, record);
	note_word(&n, note_read(&n, record + SETTING(record_value)));
	note_string(&n, record + SETTING(record_topic));
	note_key(&n, record + SETTING(record_key));
	note_client(&n, client + SETTING(client_brokers), 0, note_read(&n, client + SETTING(client_id)));
	note_end(&n);
	return 0;
}

#if HAS_CONTEXTS
enum {
	RECORD_ROOM = 300, /* bytes that a record takes in a batch beside its key and its value, at most */

	/* Places in a loan. */
	LOAN_TEXT = 40,
	LOAN_SAVED = LOAN_TEXT + HEADER_TEXT,
	LOAN_OWNER = LOAN_SAVED + 8,
};

_Static_assert(LOAN_OWNER + 8 <= LOUPE_SMALL_LOAN, "a loan is too small");

/* Why a record has no header. */
enum {
	RECORD_UNKNOWN = 1, /* it is not in the heap, or has got headers meanwhile */
	RECORD_LARGE = 2,
	NO_LOAN = 3, /* too much memory has been lent */
};

/*
 * Gives a record without headers one, until the client finishes it. The client owns the record meanwhile. It gets no header if the program
 * has stored anything in the field: while that is not there, the garbage collector would not see it.
 */
FUNCTION int lend_header(u64 record, u64 buffer, const struct loupe_context *c)
{
	u64 headers[3] = {}, key[2] = {}, value[2] = {}, limit = (u32)peek(buffer + SETTING(buffer_limit)), loan, at = record + SETTING(record_headers);
	struct states states;
	int missing = 0;

	if (!heap_memory(at, sizeof(headers)) || read_foreign(headers, sizeof(headers), at) || headers[1] || headers[2] || (headers[0] && heap_memory(headers[0], 8)) ||
	    read_foreign(key, sizeof(key), record + SETTING(record_key)) || read_foreign(value, sizeof(value), record + SETTING(record_value)))
		return RECORD_UNKNOWN;
	if (key[1] >> 31 || value[1] >> 31 || key[1] + value[1] + RECORD_ROOM > limit)
		return RECORD_LARGE;
	loan = borrow_states(&states, c, limit - key[1] - value[1] - RECORD_ROOM, &missing);
	if (!loan)
		return NO_LOAN;
	put_header_text(loan + LOAN_TEXT, c);
	put_header(loan, loan + LOAN_TEXT);
	put_word(loan + LOAN_SAVED, headers[0]);
	put_word(loan + LOAN_OWNER, record);
	lend_headers(at, loan, c, &states, 0);
	return missing;
}

/* Takes it away again. */
INLINE void return_header(u64 record)
{
	u64 at = record + SETTING(record_headers), loan = native.loans ? loan_of(peek(at)) : 0;

	if (!loan || *(volatile u64 *)(loan + LOAN_OWNER) != record)
		return;
	put_word(at + 8, 0);
	put_word(at + 16, 0);
	put_word(at, *(volatile u64 *)(loan + LOAN_SAVED));
	put_word(loan + LOAN_OWNER, 0);
	give_back(loan);
}
#endif

/* func (recBuf *recBuf) bufferRecord(pr promisedRec, abortOnNewBatch bool) bool: pr is a context, a function and the record */
PROBE(buffer)
{
#if HAS_CONTEXTS
	u64 record = ARG(buffer, 4, 32);
	struct loupe_context context;
	struct goroutine gr;
	struct note n;
	int problem;

	if (!LENDS || !record || record & 7 || !context_take(record, &context) || !read_any_g(&gr, CURRENT_G(buffer)))
		return 0;
	problem = lend_header(record, ARG(buffer, 0, 0), &context);
	if (!problem || !note_begin(&n, NO_HEADER, target_thread(), gr.id, 0))
		return 0;
	note_word(&n, problem);
	note_end(&n);
#endif
	return 0;
}

/* func (cl *Client) finishRecordPromise(pr promisedRec, err error, ...): pr is a context, a function and the record */
PROBE(send_end)
{
	u64 record = ARG(send_end, 4, 32), itab = ARG(send_end, 5, 40), error = ARG(send_end, 6, 48), name[2] = {};
	struct goroutine gr;
	struct note n;

#if HAS_CONTEXTS
	if (native.contexts) {
		context_take(record, 0);
		return_header(record);
	}
#endif
	NOTE_OR_RETURN(send_end, SEND_END, &n, &gr);
	note_word(&n, record);
	note_word(&n, type_in(itab));
	note_word(&n, note_read(&n, record + SETTING(record_partition)));
	note_word(&n, note_read(&n, record + SETTING(record_offset)));
	note_string(&n, record + SETTING(record_topic));
	if (!itab || read_foreign(name, sizeof(name), error + SETTING(error_name)) || name[1] > LOUPE_TEXT || !peek(name[0]))
		name[0] = name[1] = 0;
	note_text(&n, name[0], name[1]);
	note_end(&n);
	return 0;
}

/* func (cl *Client) PollRecords(ctx context.Context, maxPollRecords int) Fetches, which PollFetches calls, too */
PROBE(ask)
{
	struct goroutine gr;
	struct note n;

	END_NOTE_OR_RETURN(ask, ASK, &n, &gr, LOUPE_PAYLOAD);
	follow_end(gr.g, gr.id);
	context_forget(gr.id);

	u64 client = ARG(ask, 0, 0);

	note_client(&n, client + SETTING(client_brokers), client + SETTING(client_group), note_read(&n, client + SETTING(client_id)));
	note_end(&n);
	return 0;
}

/* A slice that is visited, from an element on. */
struct visit {
	u64 at, left;
};

/* What a poll has returned, and what of that is still to be visited. */
struct poll {
	u64 count;         /* of records */
	u64 first;         /* the first record */
	u64 topic, length; /* the name of the first topic */
	u32 flags;
	u32 partition; /* of all records */
	u32 searched;
	u32 tid;
	u64 goid;

	struct visit fetches, topics, partitions, records;
	u64 name, name_length; /* of the topic that is visited */
	struct kafka_search found; /* in the record that was searched last */
};

/* Sends the context of a sender. */
FUNCTION int send_parent(u64 goid, u64 tid, u64 value)
{
	struct note n;

	if (!note_begin(&n, PARENT, tid, goid, 0))
		return 0;
	note_text(&n, value, KAFKA_PARENT);
	note_end(&n);
	return 0;
}

/* Searches a record for a traceparent. */
FUNCTION int search_record(struct poll *p, u64 record)
{
	u64 headers[2] = {};

	if (!p) /* the verifier checks functions by themselves */
		return 0;
	if (!p->searched)
		p->first = record;
	p->searched++;
	if (record < FIRST_PAGE || read_foreign(headers, sizeof(headers), record + SETTING(record_headers))) {
		p->flags |= UNSEARCHED;
		return 0;
	}
	kafka_find(&p->found, headers[0], headers[1], KAFKA_TEXT_KEYS);
	if (p->found.problems)
		p->flags |= UNSEARCHED;
	if (p->found.count == 1 && p->found.length == KAFKA_PARENT)
		send_parent(p->goid, p->tid, p->found.value);
	return 0;
}

INLINE void visit_slice(struct visit *v, u64 at)
{
	u64 slice[2] = {};

	v->left = 0;
	if (!read_foreign(slice, sizeof(slice), at)) {
		v->at = slice[0];
		v->left = slice[1];
	}
}

INLINE u64 next(struct visit *v, u64 size)
{
	u64 at = v->at;

	v->at += size;
	v->left--;
	return at;
}

INLINE void visit_partition(struct poll *p, u64 partition)
{
	u32 number = peek(partition + SETTING(partition_number));

	visit_slice(&p->records, partition + SETTING(partition_records));
	if (!p->records.left)
		return;
	if (!p->count) {
		p->topic = p->name;
		p->length = p->name_length;
		p->partition = number;
	} else if (p->name_length != p->length || !same_text(p->name, p->topic, p->length)) {
		p->flags &= ~ALL_EQUAL;
		p->partition = NO_PARTITION;
	} else if (number != p->partition) {
		p->partition = NO_PARTITION;
	}
	p->count += p->records.left;
}

/* Visits a record, a partition, a topic or a fetch. Returns 0 if none is left. */
FUNCTION int visit_next(struct poll *p)
{
	if (!p)
		return 0;
	if (p->records.left && p->searched < MAX_PARENTS) {
		search_record(p, peek(next(&p->records, 8)));
	} else if (p->partitions.left) {
		visit_partition(p, next(&p->partitions, SETTING(partition_size)));
	} else if (p->topics.left) {
		u64 topic = next(&p->topics, SETTING(topic_size));

		p->name = peek(topic + SETTING(topic_name));
		p->name_length = p->name ? peek(topic + SETTING(topic_name) + 8) : 0;
		visit_slice(&p->partitions, topic + SETTING(topic_partitions));
	} else if (p->fetches.left) {
		visit_slice(&p->topics, next(&p->fetches, FETCH_SIZE) + SETTING(fetch_topics));
	} else {
		return 0;
	}
	return 1;
}

INLINE void visit_all(struct poll *p, u64 fetches, u64 count)
{
	__builtin_memset(&p->found, 0, sizeof(p->found));
	p->count = p->first = p->topic = p->length = 0;
	p->searched = 0;
	p->fetches.at = fetches;
	p->fetches.left = count;
	p->topics.left = p->partitions.left = p->records.left = 0;
	p->flags = ALL_EQUAL | CUT;
	p->partition = NO_PARTITION;
	for (u32 i = 0; i < STEPS; i++) {
		if (!visit_next(p)) {
			p->flags &= ~CUT;
			break;
		}
	}
	if (p->flags & CUT || p->searched < p->count)
		p->flags |= UNSEARCHED;
}

/* The address that a probed function returns to, at its return. */
#if defined(__TARGET_ARCH_x86)
#define RETURN_TO(probe) read_word(CALLER(probe))
#elif defined(__TARGET_ARCH_arm64)
#define RETURN_TO(probe) (SITE(probe).sp_moved ? read_word(CALLER(probe)) : CALLER(probe))
#endif

/* PollRecords returns a slice of fetches. */
PROBE(receive)
{
	u32 tid = target_thread();
	struct goroutine gr;
	struct poll p;
	struct loupe_context context;
	struct note n;

	if (!tid || !RESULT(receive, 1) || RETURN_TO(receive) - SETTING(close_start) < SETTING(close_size))
		return 0;
	if (!read_any_g(&gr, CURRENT_G(receive))) {
		unreadable(SET(kind));
		return 0;
	}
	p.goid = gr.id;
	p.tid = tid;
	visit_all(&p, RESULT(receive, 0), RESULT(receive, 1));
	if (!p.count || !note_begin(&n, RECEIVE, tid, gr.id, 0))
		return 0;
	follow_begin(gr.g, gr.id);
	if (p.count != 1 || p.flags & CUT)
		p.found.states = p.found.baggages = 0;
	if (p.count != 1 || p.flags & CUT || p.found.length != KAFKA_PARENT)
		p.found.count = 0;
	kafka_receive(&n, &context, gr.id, &p.found);
	note_word(&n, p.count);
	note_word(&n, p.flags);
	note_word(&n, p.partition);
	note_word(&n, note_read(&n, p.first + SETTING(record_offset)));
	note_word(&n, note_read(&n, p.first + SETTING(record_value)));
	note_states(&n, &context, &p.found);
	note_text(&n, p.topic, p.length);
	note_key(&n, p.first + SETTING(record_key));
	note_end(&n);
	return 0;
}
