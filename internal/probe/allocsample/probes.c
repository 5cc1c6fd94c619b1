//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The allocations that the runtime samples for its memory profile (runtime/mprof.go).
 */
enum loupe_probe {
	PROBE_mProf_Malloc,
	PROBE_mProf_Malloc_m, /* since Go 1.23 its first parameter is an m */
	PROBE_COUNT,
};

enum loupe_setting {
	SETTING_COUNT,
};

enum loupe_table_id {
	TABLE_COUNT,
};

#define LOUPE_PAYLOAD 64
#define LOUPE_TEXT 8
#define LOUPE_STACKS 1
#include "set.h"

/* Sends the size of an object, and the goroutine that allocates it. */
INLINE void sampled(u32 tid, u64 g, u64 size, u64 top, u64 fp)
{
	struct goroutine gr = {};
	struct note n;

	allocator(&gr, g, &top, &fp);
	if (!note_begin(&n, 0, tid, gr.id, gr.id ? stack_of(&gr, 0, top, fp) : 0))
		return;
	note_word(&n, size);
	note_word(&n, gr.id ? read_word(gr.g + CONFIG(g_gopc)) : 0);
	note_word(&n, gr.id ? read_word(gr.g + CONFIG(g_startpc)) : 0);
	note_end(&n);
}

/* func mProf_Malloc(p unsafe.Pointer, size uintptr) */
PROBE(mProf_Malloc)
{
	u32 tid = target_thread();

	if (tid && CALLED(mProf_Malloc))
		sampled(tid, CURRENT_G(mProf_Malloc), ARG(mProf_Malloc, 1, 8), CALLER(mProf_Malloc), frame_pointer(ctx));
	return 0;
}

/* func mProf_Malloc(mp *m, p unsafe.Pointer, size uintptr) */
PROBE(mProf_Malloc_m)
{
	u32 tid = target_thread();

	if (tid && CALLED(mProf_Malloc_m))
		sampled(tid, CURRENT_G(mProf_Malloc_m), ARG(mProf_Malloc_m, 2, 16), CALLER(mProf_Malloc_m), frame_pointer(ctx));
	return 0;
}
