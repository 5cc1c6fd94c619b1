//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * System calls and calls of C code (runtime/proc.go).
 */

/* func reentersyscall(pc, sp, bp uintptr), on the goroutine */
PROBE(reentersyscall)
{
	u32 tid = target_thread();

	if (!tid || !CALLED(reentersyscall))
		return 0;

	u64 g = CURRENT_G_OR_TLS(reentersyscall);
	u64 goid = goid_of(g);

	if (!goid)
		unreadable(GoSyscallBegin);
	else if (wanted(goid))
		emit(GoSyscallBegin, tid, goid, 0, OWN_STACK(reentersyscall, g));
	return 0;
}

/* func entersyscallblock(handoff): a call of which the runtime knows that it takes long */
PROBE(entersyscallblock)
{
	u32 tid = target_thread();

	if (!tid || !CALLED(entersyscallblock))
		return 0;

	u64 g = CURRENT_G_OR_TLS(entersyscallblock);
	u64 goid = goid_of(g);

	if (!goid)
		unreadable(GoSyscallBegin);
	else if (wanted(goid))
		emit(GoSyscallBegin, tid, goid, 0, OWN_STACK(entersyscallblock, g));
	return 0;
}

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
