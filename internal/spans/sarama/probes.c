//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Messages that github.com/IBM/sarama sends. The Go half is in decode.go, which reads the notes in the same order.
 */
enum loupe_probe {
	PROBE_send,
	PROBE_send_all,
	PROBE_dispatch,
	PROBE_sent,
	PROBE_failed,
	PROBE_all_failed,
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
	SETTING_COUNT,
};

enum loupe_table_id {
	TABLE_COUNT,
};

#define LOUPE_PAYLOAD 2048
#include "kafka.h"

/* Kinds of notes. */
enum {
	SEND,
	DISPATCH,
	SENT,
	FAILED,
};

enum {
	CHUNK = 64,    /* messages in a note */
	CHUNKS = 64,   /* notes about the end of a batch */
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

/* Sends the begin of a message. */
FUNCTION int send_message(u64 goid, u64 tid, u64 what, u64 message)
{
	u64 key[2] = {};
	struct note n;

	if (message < FIRST_PAGE || !note_begin(&n, what, tid, goid, 0))
		return 0;
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

	send_batch(&b);
	return 0;
}
