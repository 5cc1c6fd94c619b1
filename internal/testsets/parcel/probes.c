//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The parcels that a program sends with the library of the test target depot: texts, and pointers to structs in its structs.
 */
enum loupe_probe {
	PROBE_send,
	PROBE_COUNT,
};

/* Offsets of fields. */
enum loupe_setting {
	SETTING_weight,
	SETTING_label,
	SETTING_next,
	SETTING_to,
	SETTING_street,
	SETTING_city,
	SETTING_name,
	SETTING_COUNT,
};

enum loupe_table_id {
	TABLE_COUNT,
};

#define LOUPE_TEXT 64

#define LOUPE_STACKS 1
#include "set.h"

enum {
	MOST = 4, /* parcels of a chain in one note */
};

/* func (d *Depot) Send(p *Parcel) bool */
PROBE(send)
{
	u32 tid = target_thread();
	struct goroutine gr;
	struct note n;

	if (!tid || !CALLED(send))
		return 0;
	if (!read_any_g(&gr, CURRENT_G(send))) {
		unreadable(SET(kind));
		return 0;
	}
	if (!note_begin(&n, 0, tid, gr.id, ACTOR_STACK(send, &gr)))
		return 0;

	u64 parcel = ARG(send, 1, 8);

	for (u32 i = 0; i < MOST && parcel; i++) {
		u64 to = note_read(&n, parcel + SETTING(to));
		u64 city = note_read(&n, to + SETTING(city));

		note_word(&n, note_read(&n, parcel + SETTING(weight)));
		note_string(&n, parcel + SETTING(label));
		note_string(&n, to + SETTING(street));
		note_string(&n, city + SETTING(name));
		parcel = note_read(&n, parcel + SETTING(next));
	}
	if (parcel)
		n.to->r.flags |= LOUPE_CUT;
	note_end(&n);
	return 0;
}
