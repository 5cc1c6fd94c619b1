/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Messages that a program receives: a part of probes.c. A program receives them from a channel. Where its functions do that is known from
 * their code, so the probes are before and after the runtime's functions that receive, in the functions of the program.
 */
#ifndef LOUPE_CONSUME_H
#define LOUPE_CONSUME_H

enum {
	CASES = 16,          /* cases of a select that are searched */
	PORTION = 64,        /* of the messages of a response that are reported, */
	PORTIONS = 64,       /* which are at most so many portions */
	MESSAGE_MORE = 128,  /* bytes that a message may have beside its known fields */
	LONGEST_TOPIC = 249,
	KIND_POINTER = 22, /* reflect.Pointer */
	KIND_OFFSET = 23,  /* of the kind, in a type */
	TYPE_ELEM = 48,    /* offset of what a pointer type points to */
	SHORT_ROOM = 64,
	MESSAGE_NOTE = 1024,
};

INLINE u64 greatest(u64 a, u64 b) { return a > b ? a : b; }

/* The bytes of a message as far as its fields are known. */
INLINE u64 known_size(void)
{
	u64 size = greatest(SETTING(received_headers) + 24, SETTING(received_key) + 24);

	size = greatest(size, SETTING(received_value) + 24);
	size = greatest(size, SETTING(received_topic) + 16);
	return greatest(size, SETTING(received_offset) + 8);
}

/*
 * The type of the elements of a channel, if these may be pointers to messages: the Go half knows the name of the type. Its page is in
 * memory, because the channel was made of it; that of the struct is if there has been a message.
 */
FUNCTION u64 element_type(u64 channel)
{
	u64 type, size;
	u8 kind = 0;

	if (channel & 7 || (u16)peek(channel + SETTING(channel_size)) != 8)
		return 0;
	type = peek(channel + SETTING(channel_type));
	if (!type || read_foreign(&kind, 1, type + KIND_OFFSET) || (kind & 31) != KIND_POINTER)
		return 0;
	size = peek(peek(type + TYPE_ELEM));
	return size && size - known_size() >= MESSAGE_MORE ? 0 : type;
}

/*
 * If contexts are propagated, the table of contexts also has the channels of partitions, and the goroutines that are about to receive from a
 * channel: messages from other channels of the program have no contexts. The keys of goroutines are lower than addresses.
 */
#if HAS_CONTEXTS
#define ASKS(goid) ((goid) << 3)

INLINE struct loupe_context *keep(u64 key)
{
	struct loupe_context *c = native.contexts ? context_find(key, 1) : 0;

	if (c)
		c->about = lane()->stamp;
	return c;
}

INLINE void know_channel(u64 channel)
{
	if (channel)
		keep(channel);
}

INLINE void forget_channel(u64 channel)
{
	if (native.contexts && channel)
		context_take(channel, 0);
}

INLINE void asks(u64 goid, u64 channel)
{
	struct loupe_context *c = keep(ASKS(goid));

	if (c)
		c->span = channel;
}

/* Whether a goroutine that has received from a channel, or from 0, that of its last ASK, has received a message. */
INLINE int has_asked(u64 goid, u64 channel)
{
	struct loupe_context last;

	if (!native.contexts)
		return 1;
	if (!context_take(ASKS(goid), &last))
		return 0;
	return context_find(channel ? channel : last.span, 0) != 0;
}
#else
INLINE void know_channel(u64 channel) {}
INLINE void forget_channel(u64 channel) {}
INLINE void asks(u64 goid, u64 channel) {}
INLINE int has_asked(u64 goid, u64 channel) { return 1; }
#endif

/* Reports that a goroutine is about to receive from a channel, if that has messages. */
FUNCTION int send_ask(u64 g, u64 goid, u64 tid, u64 channel)
{
	u64 type = element_type(channel);
	struct note n;

	if (!type || !note_begin_in(&n, SHORT_ROOM, ASK, tid, goid, 0))
		return 0;
	follow_end(g, goid);
	context_forget(goid);
	asks(goid, channel);
	note_word(&n, channel);
	note_word(&n, type);
	note_end(&n);
	return 0;
}

/* func chanrecv1(c *hchan, elem unsafe.Pointer), and chanrecv2 */
PROBE(ask)
{
	u32 tid = target_thread();
	struct goroutine gr;

	GOROUTINE_OR_RETURN(ask, tid, &gr);
	return send_ask(gr.g, gr.id, tid, ARG(ask, 0, 0));
}

/* func selectgo(cas0 *scase, order0 *uint16, pc0 *uintptr, nsends, nrecvs int, block bool) (int, bool): a scase is a channel and an address */
PROBE(ask_select)
{
	u64 cases = ARG(ask_select, 0, 0), sends = ARG(ask_select, 3, 24), receives = ARG(ask_select, 4, 32);
	u32 tid = target_thread();
	struct goroutine gr;

	GOROUTINE_OR_RETURN(ask_select, tid, &gr);
	for (u32 i = 0; i < CASES; i++) {
		if (i >= receives)
			break;
		send_ask(gr.g, gr.id, tid, peek(cases + (sends + i) * 16));
	}
	return 0;
}

/* Adds a message. */
INLINE void note_received(struct note *n, u64 message, const struct loupe_context *c, const struct kafka_search *found)
{
	note_word(n, note_read(n, message + SETTING(received_partition)));
	note_word(n, note_read(n, message + SETTING(received_offset)));
	note_word(n, note_read(n, message + SETTING(received_value)));
	note_found(n, found);
	note_states(n, c, found);
	note_string(n, message + SETTING(received_topic));
	note_key(n, message + SETTING(received_key));
}

INLINE void find_parent(struct kafka_search *found, u64 message)
{
	u64 headers[2] = {};

	if (read_foreign(headers, sizeof(headers), message + SETTING(received_headers)))
		headers[1] = 0;
	kafka_find(found, headers[0], headers[1], KAFKA_POINTERS);
}

/* Whether this is the address of a message. */
INLINE int is_message(u64 message)
{
	return message >= FIRST_PAGE && !(message & 7) && peek(message + SETTING(received_topic) + 8) - 1 < LONGEST_TOPIC;
}

/* Reports that a goroutine has received a message from a channel, or 0: that of its last ASK. */
FUNCTION int send_taken(u64 g, u64 goid, u64 tid, u64 channel, u64 message)
{
	struct loupe_context context;
	struct kafka_search found;
	struct note n;

	if (!has_asked(goid, channel) || !is_message(message) || !note_begin_in(&n, MESSAGE_NOTE, TAKEN, tid, goid, 0))
		return 0;
	follow_begin(g, goid);
	find_parent(&found, message);
	kafka_receive(&n, &context, goid, &found);
	note_word(&n, channel);
	note_received(&n, message, &context, &found);
	note_end(&n);
	return 0;
}

/* After the calls of chanrecv1 and chanrecv2: the element is in a variable, whose place on the stack differs between functions. */
#define TAKEN_AT(nth)                                                                          \
	PROBE(taken##nth)                                                                      \
	{                                                                                      \
		u32 tid = target_thread();                                                     \
		struct goroutine gr;                                                           \
                                                                                               \
		GOROUTINE_OR_RETURN(taken##nth, tid, &gr);                                     \
		return send_taken(gr.g, gr.id, tid, 0, peek(stack_pointer(ctx) + SITE(taken##nth).results[0])); \
	}

TAKEN_AT(0)
TAKEN_AT(1)
TAKEN_AT(2)
TAKEN_AT(3)
TAKEN_AT(4)
TAKEN_AT(5)

/* After the calls of selectgo: the same of the case with a number, which has received an element. */
FUNCTION int send_chosen(u64 g, u64 goid, u64 tid, u64 cases, u64 number)
{
	u64 chosen[2] = {};

	if (number >> 16 || read_foreign(chosen, sizeof(chosen), cases + number * 16) || !element_type(chosen[0]))
		return 0;
	return send_taken(g, goid, tid, chosen[0], peek(chosen[1]));
}

#define CHOSEN_AT(nth)                                                                         \
	PROBE(chosen##nth)                                                                     \
	{                                                                                      \
		u32 tid = target_thread();                                                     \
		struct goroutine gr;                                                           \
                                                                                               \
		GOROUTINE_OR_RETURN(chosen##nth, tid, &gr);                                    \
		if (!(RESULT(chosen##nth, 1) & 1))                                             \
			return 0;                                                              \
		return send_chosen(gr.g, gr.id, tid, stack_pointer(ctx) + SITE(chosen##nth).results[2], \
				   RESULT(chosen##nth, 0));                                    \
	}

CHOSEN_AT(0)
CHOSEN_AT(1)
CHOSEN_AT(2)
CHOSEN_AT(3)

/* selectgo returns. It stores its first argument on the stack. Only engines whose probes are machine code use this place. */
PROBE(selected)
{
	u32 tid = target_thread();
	struct goroutine gr;

	if (!(RESULT(selected, 1) & 1))
		return 0;
	GOROUTINE_OR_RETURN(selected, tid, &gr);
	return send_chosen(gr.g, gr.id, tid, STACK_ARG(selected, 0), RESULT(selected, 0));
}

/* func (s *consumerGroupSession) consume(...): the group has a consumer of its own */
PROBE(group)
{
	struct goroutine gr;
	struct note n;

	NOTE_OR_RETURN(group, GROUP, &n, &gr);

	u64 parent = note_read(&n, ARG(group, 0, 0) + SETTING(session_parent));

	note_word(&n, parent ? note_read(&n, parent + SETTING(group_consumer) + 8) : 0);
	note_string(&n, parent ? parent + SETTING(group_id) : 0);
	note_end(&n);
	return 0;
}

/* func (c *consumerGroup) handleError(err error, topic string, partition int32) */
PROBE(claim_failed)
{
	u64 itab = ARG(claim_failed, 1, 8), data = ARG(claim_failed, 2, 16);
	struct goroutine gr;
	struct note n;

	SHORT_NOTE_OR_RETURN(claim_failed, CLAIM_FAILED, &n, &gr, SHORT_ROOM);
	note_word(&n, type_in(itab));
	note_word(&n, itab ? peek(data) : 0);
	note_end(&n);
	return 0;
}

/* func (c *consumerGroupClaim) waitClosed() (errs ConsumerErrors): ConsumeClaim has returned */
PROBE(claim_end)
{
	struct goroutine gr;
	struct note n;

	SHORT_NOTE_OR_RETURN(claim_end, CLAIM_END, &n, &gr, SHORT_ROOM);
	follow_end(gr.g, gr.id);
	context_forget(gr.id);
	note_end(&n);
	return 0;
}

/* func (child *partitionConsumer) parseResponse(response *FetchResponse) ([]*ConsumerMessage, error) */
PROBE(response)
{
	struct goroutine gr;
	struct note n;

	NOTE_OR_RETURN(response, RESPONSE, &n, &gr);

	u64 child = ARG(response, 0, 0), config = note_read(&n, child + SETTING(child_config)), channel = note_read(&n, child + SETTING(child_messages));

	know_channel(channel);
	note_word(&n, channel);
	note_word(&n, channel ? note_read(&n, channel) : 0); /* the number of elements in its buffer */
	note_word(&n, note_read(&n, child + SETTING(child_consumer)));
	note_string(&n, config ? config + SETTING(config_client) : 0);
	note_end(&n);
	return 0;
}

/* Reports that a message is about to be sent to the channel of the last RESPONSE. */
FUNCTION int send_fed(u64 goid, u64 tid, u64 message)
{
	struct loupe_context none = {};
	struct kafka_search found;
	struct note n;

	if (!is_message(message) || !note_begin_in(&n, MESSAGE_NOTE, FED, tid, goid, 0))
		return 0;
	find_parent(&found, message);
	note_received(&n, message, &none, &found);
	note_end(&n);
	return 0;
}

/* Reports some messages. */
FUNCTION int send_portion(u64 goid, u64 tid, u64 messages, u64 count)
{
	for (u32 i = 0; i < PORTION; i++) {
		if (i >= count)
			break;
		send_fed(goid, tid, peek(messages + i * 8));
	}
	return 0;
}

/* The same returns to (*partitionConsumer).responseFeeder. */
PROBE(fed)
{
	u64 messages = RESULT(fed, 0), count = RESULT(fed, 1);
	u32 tid = target_thread();
	struct goroutine gr;

	GOROUTINE_OR_RETURN(fed, tid, &gr);
	for (u32 i = 0; i < PORTIONS; i++) {
		if (!count)
			break;
		send_portion(gr.id, tid, messages, count);
		messages += PORTION * 8;
		count -= count < PORTION ? count : PORTION;
	}
	return 0;
}

/* func closechan(c *hchan), where responseFeeder calls it */
PROBE(fed_all)
{
	u64 channel = ARG(fed_all, 0, 0);
	struct goroutine gr;
	struct note n;

	SHORT_NOTE_OR_RETURN(fed_all, FED_ALL, &n, &gr, SHORT_ROOM);
	forget_channel(channel);
	note_word(&n, channel);
	note_word(&n, note_read(&n, channel));
	note_end(&n);
	return 0;
}

#endif
