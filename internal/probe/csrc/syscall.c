//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * System calls and calls of C code (runtime/proc.go).
 */

/*
 * The stack of a goroutine in entersyscall, whose frame is at fp. Its caller, possibly through a wrapper for
 * its ABI, may have no frame. Its return address is then at the stack pointer before the call.
 */
COMMON u64 syscall_stack(const struct goroutine *gr, u64 caller, u64 fp)
{
	u64 lo = gr->stack_lo, hi = gr->stack_hi - sizeof(struct frame), at = fp;
	struct frame f;

	if (!CONFIG(syscall_size) || !CONFIG(stack_depth) || gr->stack_hi < lo + sizeof(f))
		return stack_of(gr, 0, caller, fp);
	for (u32 i = 0; i < 2; i++) {
		if (at - lo > hi - lo || read_memory(&f, sizeof(f), at))
			break;
		if (f.pc - CONFIG(syscall_start) < CONFIG(syscall_size))
			return stack_of(gr, f.pc, at + sizeof(f), f.fp);
		at = f.fp;
	}
	return stack_of(gr, 0, caller, fp);
}

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
			emit(GoSyscallBegin, tid, gr.id, 0,                                    \
			     syscall_stack(&gr, CALLER(function), frame_pointer(ctx)));        \
		return 0;                                                                      \
	}

/* func reentersyscall(pc, sp, bp uintptr), on the goroutine */
SYSCALL_PROBE(reentersyscall)

/* func entersyscallblock(): a call that the runtime expects to block */
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

/* func exitsyscallNoP(gp *g), exitsyscall0 before Go 1.26: the goroutine has to wait for a P, and the thread does not run it any more */
PROBE(exitsyscallNoP)
{
	if (target_thread() && CALLED(exitsyscallNoP))
		thread_stops();
	return 0;
}
