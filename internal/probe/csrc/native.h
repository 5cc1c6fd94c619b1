/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The machine a probe runs on, for machine code that runs within the target: the twin of bpf.h. What it declares is
 * provided by the engine that puts the code there.
 */
#ifndef LOUPE_NATIVE_H
#define LOUPE_NATIVE_H

#include "loupe.h"

#define INLINE static inline __attribute__((always_inline, unused))
#define FUNCTION __attribute__((noinline))

/* Registers as a trampoline saves them, in the order of the kernel's. */
#if defined(__TARGET_ARCH_x86)
struct regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#elif defined(__TARGET_ARCH_arm64)
struct regs {
	u64 regs[31], sp, pc, pstate;
};
#endif

extern const struct loupe_config config __attribute__((visibility("hidden")));
extern struct loupe_control control __attribute__((visibility("hidden")));

#define CONFIG(field) config.field
#define HAS_WINDOW 0 /* to read memory costs nothing */
#define LOST() control.lost
#define EPOCH() control.epoch
#define REGISTER(ctx, name) (ctx)->name
#define PROBE(name) int probe_##name(struct regs *ctx)

/* They mean what their namesakes in bpf.h do. */
int read_memory(void *dst, u32 size, u64 addr);
u64 thread_pointer(void);
u64 now(void);
u32 target_thread(void);
void *reserve(u32 kind, u64 size, int produced);
void commit(void *record);
void unreadable(u32 kind);
int stack_known(u64 id);
void stack_sent(u64 id);
int is_listed(u64 goid);
void list_add(u64 goid);
void list_remove(u64 goid);
int is_system_start(u64 pc);
int wait_begin(u64 goid, const struct loupe_wait *w);
int wait_end(u64 goid, struct loupe_wait *w);

#endif
