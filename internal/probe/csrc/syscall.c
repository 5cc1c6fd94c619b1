//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * System calls and calls of C code (runtime/proc.go).
 */

#define SYSCALL_PROBE(function)                                                                \
	PROBE(function)                                                                        \
	{                                                                                      \
		u32 tid = target_thread();                                                     \
		struct goroutine gr;                                                           \
                                                                                               \
		if (!tid || !CALLED(function))                                                 \
			return 0;                                                              \
		if (!read_goroutine(&gr, CURRENT_G_OR_TLS(function)))                          \
			unreadable(GoSyscallBegin);                                            \
		else if (wanted(gr.id))                                                        \
			emit(GoSyscallBegin, tid, gr.id, 0, OWN_STACK(function, &gr));         \
		return 0;                                                                      \
	}

/* func reentersyscall(pc, sp, bp uintptr), on the goroutine */
SYSCALL_PROBE(reentersyscall)

/* func entersyscallblock(): a call of which the runtime knows that it takes long */
SYSCALL_PROBE(entersyscallblock)

/* func exitsyscall() */
PROBE(exitsyscall)
{
	u32 tid = target_thread();

	if (!tid || !CALLED(exitsyscall))
		return 0;

	u64 goid = goid_of(CURRENT_G_OR_TLS(exitsyscall));

	if (!goid)
		unreadable(GoSyscallEnd);
	else if (wanted(goid))
		emit(GoSyscallEnd, tid, goid, 0, 0);
	return 0;
}
