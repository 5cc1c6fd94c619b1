//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Functions that do not return: what panics and runtime.Goexit do to the stack of a goroutine. The Go half is in unwind.go, which reads the
 * notes in the same order.
 */
enum loupe_probe {
	PROBE_panics,
	PROBE_recovered,
	PROBE_exits,
	PROBE_COUNT,
};

enum loupe_setting {
	SETTING_COUNT,
};

enum loupe_table_id {
	TABLE_COUNT,
};

#define LOUPE_PAYLOAD 16
#define LOUPE_TEXT 16
#include "set.h"

/* Kinds of notes. */
enum {
	PANICS,
	RECOVERED,
	EXITS,
};

/* func gopanic(e any) */
PROBE(panics)
{
	struct goroutine gr;
	struct note n;

	NOTE_OR_RETURN(panics, PANICS, &n, &gr);
	note_word(&n, ARG(panics, 0, 0));
	note_end(&n);
	return 0;
}

/*
 * runtime.recovery calls func gogo(buf *gobuf) with the buffer of the goroutine that goes on after a panic, on the stack of the thread. Its
 * stack pointer is that of the function that had deferred the call of recover.
 */
PROBE(recovered)
{
	u32 tid = target_thread();
	struct goroutine gr;
	struct note n;
	u64 g;

	if (!tid || !CALLED(recovered))
		return 0;
	g = user_g(CURRENT_G(recovered));
	if (!g || !read_goroutine(&gr, g)) {
		unreadable(SET(kind));
		return 0;
	}
	if (!note_begin(&n, RECOVERED, tid, gr.id, 0))
		return 0;
	note_word(&n, read_word(g + CONFIG(g_stack) + 8) - read_word(g + CONFIG(g_sched_sp)));
	note_end(&n);
	return 0;
}

/* runtime.Goexit calls func goexit1() when it has called the deferred functions. */
PROBE(exits)
{
	struct goroutine gr;
	struct note n;

	NOTE_OR_RETURN(exits, EXITS, &n, &gr);
	note_end(&n);
	return 0;
}
