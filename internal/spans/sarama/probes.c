//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Messages that a program sends with github.com/IBM/sarama; consume.h has those that it receives. The Go half is in decode.go and receive.go,
 * which read the notes in the same order.
 */
enum loupe_probe {
	PROBE_send,
	PROBE_send_all,
	PROBE_dispatch,
	PROBE_sent,
	PROBE_failed,
	PROBE_all_failed,
	PROBE_overflow,
	PROBE_ask,
	PROBE_ask_select,
	PROBE_taken0,
	PROBE_taken1,
	PROBE_taken2,
	PROBE_taken3,
	PROBE_taken4,
	PROBE_taken5,
	PROBE_chosen0,
	PROBE_chosen1,
	PROBE_chosen2,
	PROBE_chosen3,
	PROBE_selected,
	PROBE_group,
	PROBE_claim_failed,
	PROBE_claim_end,
	PROBE_response,
	PROBE_fed,
	PROBE_fed_all,
	PROBE_COUNT,
};

/* Offsets of fields, where no comment says otherwise. */
enum loupe_setting {
	SETTING_message_topic,
	SETTING_message_key,
	SETTING_message_value,
	SETTING_message_partition,
	SETTING_message_offset,
	SETTING_message_retries,
	SETTING_producer_config,
	SETTING_config_client,
	SETTING_config_acks,
	SETTING_message_headers,
	SETTING_set_producer, /* of a produceSet: a pointer to its asyncProducer */
	SETTING_config_version, /* four numbers */
	SETTING_config_limit, /* the bytes of the largest message */
	SETTING_received_topic, /* of a ConsumerMessage */
	SETTING_received_key,
	SETTING_received_value,
	SETTING_received_headers,
	SETTING_received_partition,
	SETTING_received_offset,
	SETTING_channel_size, /* of a channel: the size of its elements, */
	SETTING_channel_type, /* and their type */
	SETTING_child_messages, /* of a partitionConsumer */
	SETTING_child_consumer,
	SETTING_child_config,
	SETTING_session_parent, /* of a consumerGroupSession: a pointer to its consumerGroup */
	SETTING_group_consumer,
	SETTING_group_id,
	SETTING_COUNT,
};

enum loupe_table_id {
	TABLE_COUNT,
};

#define LOUPE_PAYLOAD 2048
#include "kafka.h"
#include "loans.h"

/* Kinds of notes. */
enum {
	SEND,
	DISPATCH,
	SENT,
	FAILED,
	NO_HEADER,
	ASK,
	TAKEN,
	GROUP,
	CLAIM_FAILED,
	CLAIM_END,
	RESPONSE,
	FED,
	FED_ALL,
};

enum {
	CHUNK = 64,    /* messages in a note */
	CHUNKS = 64,   /* notes about the end of a batch */
	ALL_MESSAGES = 1 << 16, /* messages of a batch from which headers are taken away */
	CALLERS = 512, /* messages of a call of SendMessages whose caller is reported */
};

/*
 * Adds an Encoder, which is a string or bytes, given the words of the interface: its type, and the text that its value may begin with.
 * The Go half uses it if it knows the type.
 */
INLINE void note_encoder(struct note *n, u64 itab, u64 data)
{
	u64 text[2] = {};
	u8 byte = 0;

	if (data < FIRST_PAGE || read_foreign(text, sizeof(text), data) || text[1] > LOUPE_TEXT ||
	    (text[1] && (read_foreign(&byte, 1, text[0]) || read_foreign(&byte, 1, text[0] + text[1] - 1))))
		text[0] = text[1] = 0;
	note_word(n, type_in(itab));
	note_text(n, text[0], text[1]);
}

#if HAS_CONTEXTS
enum {
	KIND_SLICE = 23, /* reflect.Slice */
	KIND_STRING = 24,
	TYPE_KIND = 23, /* offset in a type */

	MESSAGE_ROOM = 150, /* bytes that a message takes beside its key and its value, at most, with a header */
	WITH_HEADERS = 11,  /* version 0.11 of Kafka and later ones have headers */

	CONTEXT_CALLED = 64, /* a flag of the context of a message that the producer has not taken yet */

	/* Places in a loan. */
	LOAN_TEXT = 48,
	LOAN_OWNER = LOAN_TEXT + HEADER_TEXT,
};

_Static_assert(LOAN_OWNER + 8 <= LOUPE_SMALL_LOAN, "a loan is too small");

/* Why a message has no header. */
enum {
	MESSAGE_UNKNOWN = 1, /* it is not in the heap, or has got headers meanwhile */
	MESSAGE_LARGE = 2,   /* or its size is unknown */
	NO_LOAN = 3,         /* too much memory has been lent */
	OLD_VERSION = 4,
};

/* The length of an Encoder at an address, if that is a string or bytes; otherwise a large number. */
INLINE u64 encoder_length(u64 at)
{
	u64 encoder[2] = {}, text[2] = {}, type;
	u8 kind = 0;

	if (read_foreign(encoder, sizeof(encoder), at))
		return ~0ull >> 1;
	if (!encoder[0])
		return 0;
	type = type_in(encoder[0]);
	if (!type || read_foreign(&kind, 1, type + TYPE_KIND) || ((kind & 31) != KIND_SLICE && (kind & 31) != KIND_STRING) ||
	    read_foreign(text, sizeof(text), encoder[1]) || text[1] >> 40)
		return ~0ull >> 1;
	return text[1];
}

/*
 * Gives a message without headers one, until the producer returns it. The producer owns the message meanwhile. It gets no header if the
 * program has stored anything in the field: while that is not there, the garbage collector would not see it.
 */
FUNCTION int lend_header(u64 message, u64 set, const struct loupe_context *c)
{
	u64 headers[3] = {}, version[2] = {}, limit = 0, key, value, loan, at = message + SETTING(message_headers), config;
	struct states states;
	int missing = 0;

	config = peek(peek(set + SETTING(set_producer)) + SETTING(producer_config));
	if (!config || read_foreign(version, sizeof(version), config + SETTING(config_version)) || read_foreign(&limit, 8, config + SETTING(config_limit)))
		return MESSAGE_UNKNOWN;
	if (!version[0] && version[1] < WITH_HEADERS)
		return OLD_VERSION;
	if (!heap_memory(at, sizeof(headers)) || read_foreign(headers, sizeof(headers), at) || headers[0] || headers[1] || headers[2])
		return MESSAGE_UNKNOWN;
	key = encoder_length(message + SETTING(message_key));
	value = encoder_length(message + SETTING(message_value));
	if (limit >> 40 || key > limit || value > limit || key + value + MESSAGE_ROOM > limit)
		return MESSAGE_LARGE;
	loan = borrow_states(&states, c, limit - key - value - MESSAGE_ROOM, &missing);
	if (!loan)
		return NO_LOAN;
	put_header_text(loan + LOAN_TEXT, c);
	put_word(loan, loan + LOAN_TEXT);
	put_word(loan + 8, HEADER_NAME);
	put_word(loan + 16, HEADER_NAME);
	put_word(loan + 24, loan + LOAN_TEXT + 16);
	put_word(loan + 32, TRACEPARENT);
	put_word(loan + 40, TRACEPARENT);
	put_word(loan + LOAN_OWNER, message);
	lend_headers(at, loan, c, &states, 1);
	return missing;
}

/* Takes it away again. */
INLINE void return_header(u64 message)
{
	u64 at = message + SETTING(message_headers), loan;

	if (message < FIRST_PAGE || message & 7)
		return;
	context_take(message, 0);
	loan = loan_of(peek(at));
	if (!loan || *(volatile u64 *)(loan + LOAN_OWNER) != message)
		return;
	put_word(at + 8, 0);
	put_word(at + 16, 0);
	put_word(at, 0);
	put_word(loan + LOAN_OWNER, 0);
	give_back(loan);
}

INLINE void return_headers(u64 messages, u64 count)
{
	if (!native.loans)
		return;
	for (u32 i = 0; i < ALL_MESSAGES && i < count; i++)
		return_header(peek(messages + i * 8));
}

/* The context of a message that is sent, or that the producer takes from its channel: it may have been sent by a call. */
INLINE void context_message(struct loupe_context *to, u64 goid, u64 message, int called, int own)
{
	struct loupe_context *c = native.contexts && !called ? context_find(message, 0) : 0;

	if (c && c->flags & CONTEXT_CALLED) {
		c->flags &= ~CONTEXT_CALLED;
		copy_context(to, c, c->flags);
		return;
	}
	context_post(to, goid, message, own, 0);
	c = native.contexts && called ? context_find(message, 0) : 0;
	if (c)
		c->flags |= CONTEXT_CALLED;
}
#else
INLINE void context_message(struct loupe_context *to, u64 goid, u64 message, int called, int own) { context_post(to, goid, message, own, 0); }
#endif

/* Sends the begin of a message. */
FUNCTION int send_message(u64 goid, u64 tid, u64 what, u64 message)
{
	u64 key[2] = {}, headers[2] = {};
	struct kafka_search found = {};
	struct loupe_context context;
	struct note n;
	int silent = 1;

	if (message < FIRST_PAGE || message & 7 || !note_begin(&n, what, tid, goid, 0))
		return 0;
	if (LENDS && !read_foreign(headers, sizeof(headers), message + SETTING(message_headers))) {
		silent = headers[1] != 0;
		kafka_find(&found, headers[0], headers[1], KAFKA_BYTE_KEYS);
	}
	context_message(&context, goid, message, what == SEND, silent ? LOUPE_SILENT : 0);
	note_context(&n, &context);
	note_word(&n, found.count);
	if (read_foreign(key, sizeof(key), message + SETTING(message_key)))
		n.to->r.flags |= LOUPE_UNREADABLE;
	note_word(&n, message);
	note_word(&n, note_read(&n, message + SETTING(message_value)));
	note_string(&n, message + SETTING(message_topic));
	note_encoder(&n, key[0], key[1]);
	note_end(&n);
	return 0;
}

#define GOROUTINE_OR_RETURN(probe, tid, gr)                                                    \
	do {                                                                                   \
		if (!(tid) || !CALLED(probe))                                                  \
			return 0;                                                              \
		if (!read_any_g(gr, CURRENT_G(probe))) {                                       \
			unreadable(SET(kind));                                                 \
			return 0;                                                              \
		}                                                                              \
	} while (0)

/* func (sp *syncProducer) SendMessage(msg *ProducerMessage) (partition int32, offset int64, err error) */
PROBE(send)
{
	u32 tid = target_thread();
	struct goroutine gr;

	GOROUTINE_OR_RETURN(send, tid, &gr);
	return send_message(gr.id, tid, SEND, ARG(send, 1, 8));
}

/* func (sp *syncProducer) SendMessages(msgs []*ProducerMessage) error */
PROBE(send_all)
{
	u64 messages = ARG(send_all, 1, 8), count = ARG(send_all, 2, 16);
	u32 tid = target_thread();
	struct goroutine gr;

	GOROUTINE_OR_RETURN(send_all, tid, &gr);
	for (u32 i = 0; i < CALLERS; i++) {
		if (i >= count)
			break;
		send_message(gr.id, tid, SEND, peek(messages + i * 8));
	}
	return 0;
}

/* func (m *ProducerMessage) ByteSize(version int) int, where (*asyncProducer).dispatcher calls it: it has taken a message from its channel */
PROBE(dispatch)
{
	u64 message = ARG(dispatch, 0, 0);
	u32 tid = target_thread();
	struct goroutine gr;

	if (peek(message + SETTING(message_retries)))
		return 0;
	GOROUTINE_OR_RETURN(dispatch, tid, &gr);
	return send_message(gr.id, tid, DISPATCH, message);
}

/* What is known of a batch that ends. */
struct batch {
	u64 goid, producer, itab, data;
	u64 messages; /* a slice, */
	u64 count;
	u64 message; /* or a message */
	u32 tid, what;
};

/* Sends the end of some messages, from one of them on. */
FUNCTION int send_chunk(const struct batch *b, u64 first)
{
	u64 config, acks, count, at;
	struct note n;

	if (!b || !note_begin(&n, b->what, b->tid, b->goid, 0)) /* the verifier checks functions by themselves */
		return 0;
	config = note_read(&n, b->producer + SETTING(producer_config));
	acks = config ? note_read(&n, config + SETTING(config_acks)) & 0xffff : 0;
	count = b->count - first;
	if (count > CHUNK)
		count = CHUNK;
	note_word(&n, count);
	note_word(&n, acks);
	note_word(&n, type_in(b->itab));
	note_word(&n, b->itab ? peek(b->data) : 0);
	at = b->messages + first * 8;
	for (u32 i = 0; i < CHUNK; i++) {
		u64 message;

		if (i >= count)
			break;
		message = b->message ? b->message : note_read(&n, at + i * 8);
		note_word(&n, message);
		note_word(&n, note_read(&n, message + SETTING(message_partition)));
		note_word(&n, note_read(&n, message + SETTING(message_offset)));
	}
	note_string(&n, config ? config + SETTING(config_client) : 0);
	at = b->message ? b->message : peek(at);
	note_string(&n, at ? at + SETTING(message_topic) : 0);
	note_end(&n);
	return 0;
}

INLINE void send_batch(const struct batch *b)
{
	u64 first = 0;

	for (u32 i = 0; i < CHUNKS; i++) {
		if (first >= b->count)
			break;
		send_chunk(b, first);
		first += CHUNK;
	}
}

/* func (p *asyncProducer) returnSuccesses(batch []*ProducerMessage) */
PROBE(sent)
{
	u32 tid = target_thread();
	struct goroutine gr;

	GOROUTINE_OR_RETURN(sent, tid, &gr);

	struct batch b = {gr.id, ARG(sent, 0, 0), 0, 0, ARG(sent, 1, 8), ARG(sent, 2, 16), 0, tid, SENT};

#if HAS_CONTEXTS
	return_headers(b.messages, b.count);
#endif
	send_batch(&b);
	return 0;
}

/* func (p *asyncProducer) returnError(msg *ProducerMessage, err error), which returnErrors calls before v1.61.1 */
PROBE(failed)
{
	u32 tid = target_thread();
	struct goroutine gr;

	GOROUTINE_OR_RETURN(failed, tid, &gr);

	struct batch b = {gr.id, ARG(failed, 0, 0), ARG(failed, 2, 16), ARG(failed, 3, 24), 0, 1, ARG(failed, 1, 8), tid, FAILED};

#if HAS_CONTEXTS
	if (native.loans)
		return_header(b.message);
#endif
	return send_chunk(&b, 0);
}

/* func (p *asyncProducer) returnErrors(batch []*ProducerMessage, err error) */
PROBE(all_failed)
{
	u32 tid = target_thread();
	struct goroutine gr;

	GOROUTINE_OR_RETURN(all_failed, tid, &gr);

	struct batch b = {gr.id, ARG(all_failed, 0, 0), ARG(all_failed, 4, 32), ARG(all_failed, 5, 40), ARG(all_failed, 1, 8), ARG(all_failed, 2, 16), 0,
			  tid, FAILED};

#if HAS_CONTEXTS
	return_headers(b.messages, b.count);
#endif
	send_batch(&b);
	return 0;
}

/* func (ps *produceSet) wouldOverflow(msg *ProducerMessage) bool: the message is about to join a batch, which takes its size into account */
PROBE(overflow)
{
#if HAS_CONTEXTS
	u64 message = ARG(overflow, 1, 8);
	struct loupe_context context;
	struct goroutine gr;
	struct note n;
	int problem;

	if (!LENDS || !message || message & 7 || !context_take(message, &context) || !read_any_g(&gr, CURRENT_G(overflow)))
		return 0;
	problem = lend_header(message, ARG(overflow, 0, 0), &context);
	if (!problem || !note_begin(&n, NO_HEADER, target_thread(), gr.id, 0))
		return 0;
	note_word(&n, problem);
	note_end(&n);
#endif
	return 0;
}

#include "consume.h"
