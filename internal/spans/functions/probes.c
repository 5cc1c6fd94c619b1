//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The calls of one function of the program. The settings say which of its parameters and results are read, and how. The Go half is in
 * decode.go, which reads the notes in the same order.
 */
enum loupe_probe {
	PROBE_called,
	PROBE_returned,
	PROBE_COUNT,
};

/* How a parameter or a result is read: its form in the lowest byte, and in two bytes each where its first two words are. 0: none. */
enum loupe_setting {
	SETTING_params,
	SETTING_params_end = SETTING_params + 7,
	SETTING_results,
	SETTING_results_end = SETTING_results + 7,
	SETTING_COUNT,
};

enum loupe_table_id {
	TABLE_COUNT,
};

#define LOUPE_PAYLOAD 512
#define LOUPE_TEXT 64
#include "set.h"

/* Kinds of notes. */
enum {
	NOTE_CALLED,
	NOTE_RETURNED,
};

enum {
	MAX_VALUES = 8, /* parameters, or results, that are read */
	WORDS = 16,     /* registers */

	ON_STACK = 0x8000, /* a word is on the stack, at an offset in the area of the arguments */
};

/* Forms of values. */
enum {
	FORM_NONE,
	FORM_WORD,      /* the first word */
	FORM_STRING,    /* the text; the words are its address and its length */
	FORM_LENGTH,    /* the second word, the length of a slice */
	FORM_INTERFACE, /* the type; the first word is that of an interface with methods */
	FORM_EMPTY,     /* the type; the first word is that of an interface without methods */
	FORM_ERROR,     /* like FORM_INTERFACE, and the first two words of the value, as a text */
};

/* A value, and where the next word of the note is. */
struct value {
	u64 form, words[2];
	u64 position;
};

/*
 * Adds a text and its address. Constants that the program has not accessed yet cannot be read by eBPF; the Go half reads them. So that is
 * no problem of the note.
 */
INLINE void note_reference(struct note *n, u64 addr, u64 length)
{
	u16 flags = n->to->r.flags;

	note_word(n, addr);
	note_text(n, addr, length);
	n->to->r.flags = flags | (n->to->r.flags & LOUPE_FULL);
}

/* Adds a value. The verifier checks this once, and not each time that it is called. */
FUNCTION int note_value(struct loupe_note *to, struct value *v)
{
	u64 type = 0, text[2] = {};

	if (!to || !v)
		return 0;

	struct note n = {to, v->position, LOUPE_PAYLOAD};

	switch (v->form) {
	case FORM_WORD:
	case FORM_EMPTY:
		note_word(&n, v->words[0]);
		break;
	case FORM_LENGTH:
		note_word(&n, v->words[1]);
		break;
	case FORM_STRING:
		note_reference(&n, v->words[0], v->words[1]);
		break;
	case FORM_INTERFACE:
	case FORM_ERROR:
		if (v->words[0] && read_foreign(&type, sizeof(type), v->words[0] + 8))
			type = 0; /* the Go half reads it */
		note_word(&n, v->words[0]);
		note_word(&n, type);
		if (v->form == FORM_INTERFACE)
			break;
		/* The reader knows whether the type begins with a text. */
		if (!v->words[1] || read_foreign(text, sizeof(text), v->words[1]))
			text[0] = text[1] = 0;
		note_reference(&n, text[0], text[1] >> 20 ? 0 : text[1]);
		break;
	}
	v->position = n.at;
	return 0;
}

/* A word of a value: a register, or a word on the stack above the return address. */
#define WORD(probe, registers, at)                                                             \
	((at) & ON_STACK ? STACK_ARG(probe, (at) & (ON_STACK - 1)) : (registers)[(at) & (WORDS - 1)])

/* Adds the values of a list of settings. */
#define NOTE_VALUES(probe, n, registers, list)                                                 \
	for (u32 i = 0; i < MAX_VALUES; i++) {                                                 \
		u64 how = SET(settings[SETTING_##list + i]);                                   \
		struct value v = {how & 0xff, {}, (n)->at};                                    \
                                                                                               \
		if (!v.form)                                                                   \
			break;                                                                 \
		v.words[0] = WORD(probe, registers, how >> 16 & 0xffff);                       \
		v.words[1] = WORD(probe, registers, how >> 32 & 0xffff);                       \
		note_value((n)->to, &v);                                                       \
		(n)->at = v.position;                                                          \
	}

/*
 * Sends a note of the current goroutine: how far the stack pointer at the entry of the function is below the beginning of its stack, which
 * identifies the call and stays the same if the stack moves, and the values. A thread's own stack is not that of a goroutine.
 */
#define SEND(probe, what, list)                                                                \
	do {                                                                                   \
		u32 tid = target_thread();                                                     \
		u64 registers[WORDS];                                                          \
		struct goroutine gr;                                                           \
		struct note n;                                                                 \
                                                                                               \
		if (!tid || !CALLED(probe))                                                    \
			return 0;                                                              \
		if (!read_any_g(&gr, CURRENT_G(probe))) {                                      \
			unreadable(SET(kind));                                                 \
			return 0;                                                              \
		}                                                                              \
		if (!gr.id || !note_begin(&n, what, tid, gr.id, 0))                            \
			return 0;                                                              \
		note_word(&n, read_word(gr.g + CONFIG(g_stack) + 8) - stack_pointer(ctx) - (s64)SITE(probe).sp_moved); \
		for (u32 i = 0; i < WORDS; i++)                                                \
			registers[i] = arg_register(ctx, i);                                   \
		NOTE_VALUES(probe, &n, registers, list)                                        \
		note_end(&n);                                                                  \
	} while (0)

PROBE(called)
{
	SEND(called, NOTE_CALLED, params);
	return 0;
}

PROBE(returned)
{
	SEND(returned, NOTE_RETURNED, results);
	return 0;
}
