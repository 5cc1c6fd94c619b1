/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The set of probes in the Go runtime.
 */
#ifndef LOUPE_RUNTIME_H
#define LOUPE_RUNTIME_H

#define LOUPE_STACKS 1

/* The probes, by their numbers. */
enum loupe_probe {
	PROBE_gopark,
	PROBE_ready,
	PROBE_casgstatus,
	PROBE_borrow_casgstatus,
	PROBE_execute,
	PROBE_goschedImpl,
	PROBE_gosched_m,
	PROBE_goschedguarded_m,
	PROBE_gopreempt_m,
	PROBE_preemptPark,
	PROBE_newproc_runqput,
	PROBE_newproc1_casgstatus,
	PROBE_newcoro,
	PROBE_goyield_m,
	PROBE_goexit0,
	PROBE_coroswitch_m,
	PROBE_reentersyscall,
	PROBE_entersyscallblock,
	PROBE_exitsyscall,
	PROBE_exitsyscallNoP,
	PROBE_makechan,
	PROBE_chansend,
	PROBE_chanrecv,
	PROBE_closechan,
	PROBE_selectgo,
	PROBE_semacquire1,
	PROBE_semrelease1,
	PROBE_gcBgMarkStartWorkers,
	PROBE_gcMarkTermination,
	PROBE_gcSweep,
	PROBE_stopTheWorldWithSema,
	PROBE_startTheWorldWithSema,
	PROBE_gcAssistAlloc1_gcDrainN,
	PROBE_gcAssistAlloc1_casgstatus,
	PROBE_COUNT,
};

/* The settings of this set are in loupe_config, because go.h needs them in every set. */
enum loupe_setting {
	SETTING_COUNT,
};

enum loupe_table_id {
	TABLE_COUNT,
};

#endif
