/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Which goroutines are reported. go.h includes this file.
 */
#ifndef LOUPE_FILTERS_H
#define LOUPE_FILTERS_H

/*
 * The place of a goroutine in a random order of all IDs: package sampling has the same. Goroutines that are created together have IDs in
 * batches of 16. 0, which means no goroutine, has the highest place.
 */
INLINE u32 sample_hash(u64 goid)
{
	u64 hash = goid * 0x9e3779b97f4a7c15ull;

	hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93ull;
	return ~(u32)(hash >> 32);
}

/* Whether a goroutine is sampled. The reader can change that at any time. */
INLINE int in_sample(u64 goid)
{
	u32 skip = SKIP();

	return !skip || sample_hash(goid) >= skip;
}

/* Whether a goroutine matches the other filters. */
INLINE int passes_filters(u64 goid)
{
	if (CONFIG(only_listed))
		return is_listed(goid);
	if (CONFIG(skip_listed))
		return !is_listed(goid);
	return 1;
}

/* Whether the events of a goroutine are reported. */
COMMON int wanted(u64 goid) { return in_sample(goid) && passes_filters(goid); }

#endif
