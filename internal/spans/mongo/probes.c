//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Operations of module go.mongodb.org/mongo-driver. The Go half is in decode.go, which reads the notes in the same order.
 */
enum loupe_probe {
	PROBE_execute,
	PROBE_command,
	PROBE_executed,
	PROBE_COUNT,
};

/* Offsets of fields. */
enum loupe_setting {
	SETTING_op_database,
	SETTING_op_name,
	SETTING_op_last, /* the last field, which has one byte */
	SETTING_command_document,
	SETTING_command_name,
	SETTING_command_address,
	SETTING_error_code,
	SETTING_error_wrapped,
	SETTING_write_concern, /* of a WriteCommandError */
	SETTING_write_errors,
	SETTING_concern_code,
	SETTING_write_code,
	SETTING_COUNT,
};

enum loupe_table_id {
	TABLE_COUNT,
};

#define LOUPE_PAYLOAD 1024
#define LOUPE_TEXT 512
#include "contexts.h"

/* Kinds of notes. */
enum {
	EXECUTE,
	COMMAND,
	EXECUTED,
};

enum {
	DOCUMENT_MAX = 384, /* bytes of a command that are read: its name and the collection are at the begin */
	NAME_MAX = 255,     /* bytes of names and addresses */
	FIRST_PAGE = 4096,
};

/* A word that need not be readable; 0 if it is not. Unlike note_read, it does not mark a note. */
INLINE u64 peek(u64 addr)
{
	u64 word = 0;

	return addr < FIRST_PAGE || read_foreign(&word, sizeof(word), addr) ? 0 : word;
}

/* The type in the itab of an interface value; 0 for nil. */
INLINE u64 type_in(u64 itab) { return itab ? peek(itab + 8) : 0; }

/* Adds the beginning of a string or a slice whose two words are at an address. */
INLINE void note_beginning(struct note *n, u64 addr, u64 most)
{
	u64 text[2] = {};
	u8 byte = 0;

	if (read_foreign(text, sizeof(text), addr) || text[1] >> 32 || (text[1] && read_foreign(&byte, 1, text[0])))
		text[0] = text[1] = 0;
	note_text(n, text[0], text[1] > most ? most : text[1]);
}

/* The address of the arguments on the stack: values that do not fit in registers are there. */
#define ON_STACK(probe) (stack_pointer(ctx) + SITE(probe).sp_moved + 8)

/* func (op Operation) Execute(ctx context.Context) error */
PROBE(execute)
{
	u64 op = ON_STACK(execute);
	struct goroutine gr;
	struct note n;

	NOTE_OR_RETURN(execute, EXECUTE, &n, &gr);
	note_beginning(&n, op + SETTING(op_name), NAME_MAX);
	note_beginning(&n, op + SETTING(op_database), NAME_MAX);
	note_contexts(&n, ARG(execute, 1, 8));
	note_end(&n);
	return 0;
}

/* func (op Operation) publishStartedEvent(ctx context.Context, info startedInformation), which each attempt of an operation calls */
PROBE(command)
{
	u64 info = ON_STACK(command) + ((SETTING(op_last) + 8) & ~7ull);
	struct goroutine gr;
	struct note n;

	NOTE_OR_RETURN(command, COMMAND, &n, &gr);
	note_beginning(&n, info + SETTING(command_name), NAME_MAX);
	note_beginning(&n, info + SETTING(command_address), NAME_MAX);
	note_beginning(&n, info + SETTING(command_document), DOCUMENT_MAX);
	note_end(&n);
	return 0;
}

/* Execute returns an error. The Go half uses what its type has. */
PROBE(executed)
{
	u64 itab, data, text[2] = {}, errors[2] = {}, beginning = 0, concern;
	struct goroutine gr;
	struct note n;

	if (!RETURNS(executed))
		return 0;
	NOTE_OR_RETURN(executed, EXECUTED, &n, &gr);
	itab = RESULT(executed, 0);
	data = itab ? RESULT(executed, 1) : 0;
	note_word(&n, type_in(itab));
	note_word(&n, (u32)peek(data + SETTING(error_code)));
	note_word(&n, data ? type_in(peek(data + SETTING(error_wrapped))) : 0);
	if (data < FIRST_PAGE || read_foreign(errors, sizeof(errors), data + SETTING(write_errors)))
		errors[0] = errors[1] = 0;
	note_word(&n, errors[1] && errors[0] >= FIRST_PAGE ? peek(errors[0] + SETTING(write_code)) : 0);
	concern = data ? peek(data + SETTING(write_concern)) : 0;
	note_word(&n, concern >= FIRST_PAGE ? peek(concern + SETTING(concern_code)) : 0);
	if (data >= FIRST_PAGE && !read_foreign(text, sizeof(text), data) && text[1] >= 8 && text[1] < NAME_MAX &&
	    read_foreign(&beginning, sizeof(beginning), text[0]))
		beginning = 0;
	note_word(&n, beginning);
	note_end(&n);
	return 0;
}
