//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Messages of github.com/segmentio/kafka-go. The Go half is in decode.go, which reads the notes in the same order.
 */
enum loupe_probe {
	PROBE_send_begin,
	PROBE_send_end,
	PROBE_join,
	PROBE_written,
	PROBE_ask,
	PROBE_fetched,
	PROBE_read,
	PROBE_produce,
	PROBE_record,
	PROBE_recorded,
	PROBE_COUNT,
};

/* Offsets of fields, where no comment says otherwise. */
enum loupe_setting {
	SETTING_message_size, /* bytes */
	SETTING_message_topic,
	SETTING_message_partition,
	SETTING_message_offset,
	SETTING_message_key,
	SETTING_message_value,
	SETTING_message_headers,
	SETTING_message_on_stack, /* 1: a message that a function returns is on the stack */
	SETTING_writer_addr,
	SETTING_writer_topic,
	SETTING_writer_transport,
	SETTING_writer_async,
	SETTING_writer_acks,
	SETTING_transport_client,
	SETTING_address_text,
	SETTING_reader_brokers,
	SETTING_reader_group,
	SETTING_reader_dialer,
	SETTING_dialer_client,
	SETTING_batch_messages,
	SETTING_batch_size,
	SETTING_batch_done,
	SETTING_batch_error,
	SETTING_batch_bytes,
	SETTING_records_messages, /* of a writerRecords, which reads the messages of a batch: a slice of them, */
	SETTING_records_index,    /* the index of the next one, */
	SETTING_records_record,   /* and the record that it has made of the last one */
	SETTING_record_headers,
	SETTING_partition_topic,  /* of a partitionWriter: its topic, */
	SETTING_partition_number, /* its partition, */
	SETTING_partition_writer, /* and a pointer to the Writer */
	SETTING_read_start, /* the address of (*Reader).ReadMessage, */
	SETTING_read_size,  /* and its size */
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
	JOINS,
	WRITTEN,
	ASK,
	RECEIVE,
	NO_HEADER,
};

enum {
	TOPICS = 64, /* messages whose topics are compared */
	ERRORS = 64, /* messages whose errors are searched */
};

/* The topic of messages. Its length is 0 if they have different ones. */
struct topic {
	u64 text, length;
};

FUNCTION int find_topic(struct topic *to, u64 writer, u64 messages, u64 count)
{
	if (!to) /* the verifier checks functions by themselves */
		return 0;
	if (read_foreign(to, sizeof(*to), writer + SETTING(writer_topic)))
		to->text = to->length = 0;
	if (to->length || !messages)
		return 0;
	if (read_foreign(to, sizeof(*to), messages + SETTING(message_topic)) || count > TOPICS) {
		to->text = to->length = 0;
		return 0;
	}
	for (u32 i = 1; i < TOPICS; i++) {
		struct topic other = {};

		if (i >= count)
			break;
		if (read_foreign(&other, sizeof(other), messages + i * SETTING(message_size) + SETTING(message_topic)) ||
		    other.length != to->length || !same_text(other.text, to->text, to->length)) {
			to->text = to->length = 0;
			break;
		}
	}
	return 0;
}

/* func (w *Writer) WriteMessages(ctx context.Context, msgs ...Message) error */
PROBE(send_begin)
{
	u64 addr[2] = {}, transport[2] = {};
	struct loupe_context context;
	struct goroutine gr;
	struct topic topic;
	struct note n;
	u8 async = 0;

	NOTE_OR_RETURN(send_begin, SEND_BEGIN, &n, &gr);
	context_send(&context, gr.id, 0, LENDS ? 0 : LOUPE_SILENT, ARG(send_begin, 2, 16));
	note_context(&n, &context);

	u64 writer = ARG(send_begin, 0, 0), messages = ARG(send_begin, 3, 24), count = ARG(send_begin, 4, 32);

	find_topic(&topic, writer, messages, count);
	if (read_foreign(&async, 1, writer + SETTING(writer_async)))
		n.to->r.flags |= LOUPE_UNREADABLE;
	if (read_foreign(addr, sizeof(addr), writer + SETTING(writer_addr)) ||
	    read_foreign(transport, sizeof(transport), writer + SETTING(writer_transport)))
		n.to->r.flags |= LOUPE_UNREADABLE;
	note_contexts(&n, ARG(send_begin, 2, 16));
	note_word(&n, count);
	note_word(&n, async);
	note_word(&n, count == 1 ? note_read(&n, messages + SETTING(message_value)) : 0);
	note_text(&n, topic.text, topic.length);
	if (count == 1) {
		note_key(&n, messages + SETTING(message_key));
	} else {
		note_word(&n, 0);
		note_text(&n, 0, 0);
	}
	note_word(&n, type_in(addr[0]));
	note_string(&n, peek(addr[1]) ? addr[1] + SETTING(address_text) : 0);
	note_word(&n, type_in(transport[0]));
	note_string(&n, peek(transport[1] + SETTING(transport_client)) ? transport[1] + SETTING(transport_client) : 0);
	note_end(&n);
	return 0;
}

/* The first error of a WriteErrors, which is a slice with an error or nil for each message. */
struct error {
	u64 itab, data;
};

FUNCTION int find_error(struct error *to, u64 slice)
{
	u64 header[2] = {};

	if (!to) /* the verifier checks functions by themselves */
		return 0;
	to->itab = to->data = 0;
	if (slice < FIRST_PAGE || read_foreign(header, sizeof(header), slice))
		return 0;
	for (u32 i = 0; i < ERRORS; i++) {
		if (i >= header[1] || read_foreign(to, sizeof(*to), header[0] + i * sizeof(*to)) || to->itab)
			break;
	}
	return 0;
}

/* The same returns. */
PROBE(send_end)
{
	u64 itab = RESULT(send_end, 0), data = RESULT(send_end, 1);
	struct error inner = {};
	struct goroutine gr;
	struct note n;

	NOTE_OR_RETURN(send_end, SEND_END, &n, &gr);
	context_end_call(gr.id);
	if (itab)
		find_error(&inner, data);
	note_word(&n, type_in(itab));
	note_word(&n, itab ? peek(data) : 0);
	note_word(&n, type_in(inner.itab));
	note_word(&n, inner.itab ? peek(inner.data) : 0);
	note_end(&n);
	return 0;
}

#define MESSAGE(probe) (stack_pointer(ctx) + SITE(probe).sp_moved + 8)

#if HAS_CONTEXTS
enum {
	MESSAGE_ROOM = 75,     /* bytes that a header adds to a message, at most */
	MESSAGE_OVERHEAD = 64, /* bytes of a message in a batch beside its key, its value and its headers */
	ALL_MESSAGES = 1024,   /* of a batch whose contexts are removed when it has been written. The others are removed later, by their age */
};

/* Why a message has no header. */
enum {
	MESSAGE_LARGE = 1,   /* it could exceed the limit of the Writer */
	MESSAGE_UNKNOWN = 2, /* what it is in is not what it should be */
	HEADERS_UNKNOWN = 3, /* its headers are too many, or cannot be read */
	NO_LOAN = 4,         /* too much memory has been lent */
};

/* The key of the context of a message: its address in the messages of a batch. */
#define MESSAGE_KEY(messages, index) ((messages) + (index) * SETTING(message_size))

INLINE void note_no_header(u64 goid, int problem)
{
	struct note n;

	if (!problem || !note_begin(&n, NO_HEADER, target_thread(), goid, 0))
		return;
	note_word(&n, problem);
	note_end(&n);
}

/* The bytes of a message in a batch, at most; 0 if they are unknown. */
FUNCTION u64 message_bytes(u64 message)
{
	u64 key[2] = {}, value[2] = {}, headers[2] = {}, sum = MESSAGE_OVERHEAD;

	if (read_foreign(key, sizeof(key), message + SETTING(message_key)) || read_foreign(value, sizeof(value), message + SETTING(message_value)) ||
	    read_foreign(headers, sizeof(headers), message + SETTING(message_headers)) || headers[1] > KAFKA_HEADERS || key[1] >> 32 || value[1] >> 32)
		return 0;
	for (u64 i = 0; i < headers[1]; i++) {
		u64 header[4] = {};

		if (read_foreign(header, sizeof(header), headers[0] + i * 40) || header[1] >> 32 || header[3] >> 32)
			return 0;
		sum += header[1] + header[3] + 10;
	}
	return sum + key[1] + value[1];
}

/*
 * Stores the context of a message that joins a batch. The batch, which the current goroutine has locked, takes the header into account, so
 * that it remains within the limit of the Writer and of the broker. Returns 0, or why the message gets no header.
 */
FUNCTION int context_join(u64 goid, u64 batch, u64 message, u64 max_bytes)
{
	struct loupe_context *call = context_find(context_key(goid, CONTEXT_CALL), 0), c;
	u64 messages[3] = {}, size = 0, bytes = 0, own, extra;
	int missing = 0;

	if (!call || call->flags & LOUPE_SILENT)
		return 0;
	c = *call;
	if (!heap_memory(batch, SETTING(batch_bytes) + 8) || read_foreign(messages, sizeof(messages), batch + SETTING(batch_messages)) ||
	    read_foreign(&size, 8, batch + SETTING(batch_size)) || read_foreign(&bytes, 8, batch + SETTING(batch_bytes)) || size >> 32 || bytes >> 40)
		return MESSAGE_UNKNOWN;
	own = message_bytes(message);
	if (!own)
		return HEADERS_UNKNOWN;
	if (max_bytes >> 40 || own + MESSAGE_ROOM > max_bytes)
		return MESSAGE_LARGE;
	if (size == 1 && messages[0] && context_take(batch, &c)) /* the first message came before there was a place for it */
		context_about(&c, messages[0]);
	c = *call;
	extra = states_bytes(states_of(&c));
	if (extra && own + MESSAGE_ROOM + extra > max_bytes) {
		extra = c.carried = 0;
		missing = CARRIED_MISSING;
	}
	context_about(&c, messages[0] ? MESSAGE_KEY(messages[0], size) : batch);
	put_word(batch + SETTING(batch_bytes), bytes + MESSAGE_ROOM + extra);
	return missing;
}

/* The batch is about to be sent: its first message has a place. */
INLINE void context_place(u64 batch)
{
	struct loupe_context c;
	u64 messages = 0;

	if (context_take(batch, &c) && !read_foreign(&messages, 8, batch + SETTING(batch_messages)) && messages)
		context_about(&c, messages);
}

/* The batch has been sent. */
INLINE void context_written(u64 batch)
{
	u64 messages = 0, size = 0;

	if (!native.contexts || !batch || read_foreign(&messages, 8, batch + SETTING(batch_messages)) || read_foreign(&size, 8, batch + SETTING(batch_size)))
		return;
	context_take(batch, 0);
	for (u32 i = 0; i < ALL_MESSAGES && i < size; i++)
		context_take(MESSAGE_KEY(messages, i), 0);
}

/*
 * Adds a header to a record that is about to be encoded. The record belongs to what encodes the batch. Its headers are in an array of
 * the program: it gets another one, which is lent until the batch is encoded. What the headers refer to is kept by the message.
 */
FUNCTION int add_header(u64 goid, u64 record)
{
	struct loupe_context *writing, *c;
	struct kafka_search found;
	u64 messages = 0, index = 0, headers[3] = {}, base = record - SETTING(records_record), loan, text, count;
	struct states states;
	int missing = 0;

	if (!heap_memory(base, SETTING(records_record) + SETTING(record_headers) + 24) || read_foreign(&messages, 8, base + SETTING(records_messages)) ||
	    read_foreign(&index, 8, base + SETTING(records_index)) || !messages || messages & 7 || !index || index >> 32)
		return 0; /* other records, which the program encodes itself */
	c = context_find(MESSAGE_KEY(messages, index - 1), 0);
	if (!c)
		return 0;
	if (read_foreign(headers, sizeof(headers), record + SETTING(record_headers)))
		return MESSAGE_UNKNOWN;
	kafka_find(&found, headers[0], headers[1], KAFKA_TEXT_KEYS);
	if (found.problems)
		return HEADERS_UNKNOWN;
	if (found.count)
		return 0;
	writing = context_find(context_key(goid, CONTEXT_WRITE), 1);
	if (!writing)
		return 0; /* which is counted */
	loan = writing->about ? writing->about : borrow_large();
	writing->about = loan;
	if (!loan) {
		context_take(context_key(goid, CONTEXT_WRITE), 0);
		return NO_LOAN;
	}
	states = states_of(c);
	if (found.states)
		states.state = 0;
	if (found.baggages)
		states.baggage = 0;
	text = loan + (headers[1] + 3) * 40;
	if (text + HEADER_TEXT + states_texts(states) > loan + LOUPE_LARGE_LOAN) {
		states.state = states.baggage = 0;
		missing = CARRIED_MISSING;
	}
	for (u64 i = 0; i < headers[1]; i++) {
		u64 header[5] = {};

		if (read_foreign(header, sizeof(header), headers[0] + i * 40))
			return HEADERS_UNKNOWN;
		for (u32 j = 0; j < 5; j++)
			put_word(loan + i * 40 + j * 8, header[j]);
	}
	put_header_text(text, c);
	put_header(loan + headers[1] * 40, text);
	count = headers[1] + 1 + put_states(loan + (headers[1] + 1) * 40, text + HEADER_TEXT, c, &states, 0);
	put_word(record + SETTING(record_headers), loan);
	put_word(record + SETTING(record_headers) + 8, count);
	put_word(record + SETTING(record_headers) + 16, count);
	return missing;
}

_Static_assert((KAFKA_HEADERS + 3) * 40 + HEADER_TEXT <= LOUPE_LARGE_LOAN, "a loan is too small");

INLINE void record_end(u64 goid)
{
	struct loupe_context writing;

	if (context_take(context_key(goid, CONTEXT_WRITE), &writing) && writing.about)
		give_back_large(writing.about);
}
#endif

/* func (b *writeBatch) add(msg Message, maxSize int, maxBytes int64) bool: the message of a Writer's goroutine joins a batch, if there is room */
PROBE(join)
{
	u64 batch = ARG(join, 0, 0);
	struct goroutine gr;
	struct note n;

	NOTE_OR_RETURN(join, JOINS, &n, &gr);
	note_word(&n, batch);
	note_word(&n, note_read(&n, batch + SETTING(batch_size)));
	note_end(&n);
#if HAS_CONTEXTS
	if (lends())
		note_no_header(gr.id, context_join(gr.id, batch, MESSAGE(join), ARG(join, 2, 16)));
#endif
	return 0;
}

/* func (w *Writer) produce(key topicPartition, batch *writeBatch) (*ProduceResponse, error) */
PROBE(produce)
{
#if HAS_CONTEXTS
	if (native.contexts)
		context_place(ARG(produce, 4, 32));
#endif
	return 0;
}

/* func(i int, r *Record) error, which (*RecordSet).writeToVersion2 calls for each record */
PROBE(record)
{
#if HAS_CONTEXTS
	struct goroutine gr;

	if (lends() && read_any_g(&gr, CURRENT_G(record)))
		note_no_header(gr.id, add_header(gr.id, ARG(record, 1, 8)));
#endif
	return 0;
}

/* func MakeTable(poly uint32) *Table, where (*RecordSet).writeToVersion2 calls it: all records have been encoded */
PROBE(recorded)
{
#if HAS_CONTEXTS
	struct goroutine gr;

	if (native.loans && read_any_g(&gr, CURRENT_G(recorded)))
		record_end(gr.id);
#endif
	return 0;
}

/* Where the function in which a probe is stores the arguments that it was given in registers. */
#if defined(__TARGET_ARCH_x86)
#define SPILLED(n) read_word(frame_pointer(ctx) + 16 + (n) * 8)
#elif defined(__TARGET_ARCH_arm64)
#define SPILLED(n) read_word(read_word(frame_pointer(ctx)) + 16 + (n) * 8)
#endif

/*
 * func (ptw *partitionWriter) writeBatch(batch *writeBatch), where it closes the channel of the batch: the batch has been written, or that
 * has failed
 */
PROBE(written)
{
	u64 done = ARG(written, 0, 0), writer = SPILLED(0), batch = SPILLED(1), error[2] = {};
	struct goroutine gr;
	struct note n;
	u64 first, acks;

	NOTE_OR_RETURN(written, WRITTEN, &n, &gr);
	if (peek(batch + SETTING(batch_done)) != done) /* it has not stored them there */
		batch = 0;
	first = peek(batch + SETTING(batch_messages));
	acks = peek(peek(writer + SETTING(partition_writer)) + SETTING(writer_acks));
	if (batch && read_foreign(error, sizeof(error), batch + SETTING(batch_error)))
		n.to->r.flags |= LOUPE_UNREADABLE;
	note_word(&n, batch);
	note_word(&n, batch ? note_read(&n, batch + SETTING(batch_size)) : 0);
	note_word(&n, type_in(error[0]));
	note_word(&n, error[0] ? peek(error[1]) : 0);
	note_word(&n, acks);
	note_word(&n, batch ? note_read(&n, writer + SETTING(partition_number)) : 0);
	note_word(&n, first ? note_read(&n, first + SETTING(message_offset)) : 0);
	note_string(&n, batch ? writer + SETTING(partition_topic) : 0);
	note_end(&n);
#if HAS_CONTEXTS
	context_written(batch);
#endif
	return 0;
}

/* func (r *Reader) FetchMessage(ctx context.Context) (Message, error), which ReadMessage calls, too */
PROBE(ask)
{
	struct goroutine gr;
	struct note n;

	END_NOTE_OR_RETURN(ask, ASK, &n, &gr, LOUPE_PAYLOAD);
	follow_end(gr.g, gr.id);
	context_forget(gr.id);

	u64 reader = ARG(ask, 0, 0), dialer = note_read(&n, reader + SETTING(reader_dialer));

	note_client(&n, reader + SETTING(reader_brokers), reader + SETTING(reader_group), dialer ? dialer + SETTING(dialer_client) : 0);
	note_end(&n);
	return 0;
}

/* The address that a probed function returns to, at its return. */
#if defined(__TARGET_ARCH_x86)
#define RETURN_TO(probe) read_word(CALLER(probe))
#elif defined(__TARGET_ARCH_arm64)
#define RETURN_TO(probe) (SITE(probe).sp_moved ? read_word(CALLER(probe)) : CALLER(probe))
#endif

/* Sends a message that a function returns. It is on the stack. */
FUNCTION int send_received(u64 g, u64 message)
{
	u32 tid = target_thread();
	struct loupe_context context;
	struct kafka_search found;
	struct goroutine gr;
	u64 headers[2] = {};
	struct note n;

	if (!tid)
		return 0;
	if (!read_any_g(&gr, g)) {
		unreadable(SET(kind));
		return 0;
	}
	if (!note_begin(&n, RECEIVE, tid, gr.id, 0))
		return 0;
	follow_begin(gr.g, gr.id);
	if (read_foreign(headers, sizeof(headers), message + SETTING(message_headers)))
		n.to->r.flags |= LOUPE_UNREADABLE;
	kafka_find(&found, headers[0], headers[1], KAFKA_TEXT_KEYS);
	kafka_receive(&n, &context, gr.id, &found);
	note_word(&n, note_read(&n, message + SETTING(message_partition)));
	note_word(&n, note_read(&n, message + SETTING(message_offset)));
	note_word(&n, note_read(&n, message + SETTING(message_value)));
	note_found(&n, &found);
	note_states(&n, &context, &found);
	note_string(&n, message + SETTING(message_topic));
	note_key(&n, message + SETTING(message_key));
	note_end(&n);
	return 0;
}

/* (*Reader).FetchMessage returns a message and an error, but not to ReadMessage */
PROBE(fetched)
{
	if (RESULT(fetched, 0) || RETURN_TO(fetched) - SETTING(read_start) < SETTING(read_size))
		return 0;
	return send_received(CURRENT_G(fetched), MESSAGE(fetched));
}

/* (*Reader).ReadMessage returns a message and an error */
PROBE(read)
{
	if (RESULT(read, 0))
		return 0;
	return send_received(CURRENT_G(read), MESSAGE(read));
}
