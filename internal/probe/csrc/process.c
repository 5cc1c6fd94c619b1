//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The process executes another program: all state of the old one is invalid.
 */
SEC("raw_tp/sched_process_exec")
int process_exec(void *ctx)
{
	u32 tid = target_thread();

	if (tid) {
		emit(Exec, tid, 0, 0, 0);
		control.enabled = 0;
	}
	return 0;
}
