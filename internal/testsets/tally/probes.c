//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The parcels that a program weighs with the library of the test target depot, counted by kind without an event for each.
 */
enum loupe_probe {
	PROBE_weigh,
	PROBE_COUNT,
};

enum loupe_setting {
	SETTING_COUNT,
};

enum loupe_table_id {
	TABLE_kinds,
	TABLE_COUNT,
};

#include "set.h"

TABLE(kinds, 1)

/* func (d *Depot) Weigh(kind, weight uint64) */
PROBE(weigh)
{
	u32 tid = target_thread();
	int added;

	if (!tid || !CALLED(weigh))
		return 0;

	u64 *values = find_kinds(ARG(weigh, 1, 8), &added);

	if (values)
		ADD(values, 0, ARG(weigh, 2, 16));
	return 0;
}
