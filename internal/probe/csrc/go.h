/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How a probe accesses the Go runtime: arguments, the current g, goroutines, stacks.
 */
#ifndef LOUPE_GO_H
#define LOUPE_GO_H

#define SITE(probe) SET(sites[PROBE_##probe])
#define SETTING(name) SET(settings[SETTING_##name])

INLINE u64 read_word(u64 addr)
{
	u64 w = 0;

	if (read_memory(&w, sizeof(w), addr))
		return 0;
	return w;
}

#if defined(__TARGET_ARCH_x86)

INLINE u64 stack_pointer(struct regs *ctx) { return REGISTER(ctx, sp); }
INLINE u64 frame_pointer(struct regs *ctx) { return REGISTER(ctx, bp); }

/* The return address of a function without a frame in which a goroutine stopped, or where it is on the stack. */
#define RETURN_ADDRESS(gr) SAVED(gr, sp)

/* The branch of a stack check is taken when the carry or the zero flag is set. */
INLINE int branch_taken(struct regs *ctx) { return (REGISTER(ctx, flags) & 0x41) != 0; }

/* Argument registers in their order. */
INLINE u64 arg_register(struct regs *ctx, u32 n)
{
	switch (n) {
	case 0: return REGISTER(ctx, ax);
	case 1: return REGISTER(ctx, bx);
	case 2: return REGISTER(ctx, cx);
	case 3: return REGISTER(ctx, di);
	case 4: return REGISTER(ctx, si);
	case 5: return REGISTER(ctx, r8);
	case 6: return REGISTER(ctx, r9);
	case 7: return REGISTER(ctx, r10);
	case 8: return REGISTER(ctx, r11);
	}
	return 0;
}

/* Registers by their number in machine code, as far as they can hold g or a new object. */
INLINE u64 numbered_register(struct regs *ctx, u32 n)
{
	switch (n) {
	case 0: return REGISTER(ctx, ax);
	case 1: return REGISTER(ctx, cx);
	case 2: return REGISTER(ctx, dx);
	case 3: return REGISTER(ctx, bx);
	case 6: return REGISTER(ctx, si);
	case 7: return REGISTER(ctx, di);
	case 14: return REGISTER(ctx, r14);
	}
	return 0;
}

#elif defined(__TARGET_ARCH_arm64)

INLINE u64 stack_pointer(struct regs *ctx) { return REGISTER(ctx, sp); }
INLINE u64 frame_pointer(struct regs *ctx) { return REGISTER(ctx, regs[29]); }
#define RETURN_ADDRESS(gr) SAVED(gr, lr)

/* The branch of a stack check (B.LS) is taken when C is clear or Z is set. */
INLINE int branch_taken(struct regs *ctx)
{
	u64 flags = REGISTER(ctx, pstate);

	return !(flags & (1ull << 29)) || (flags & (1ull << 30));
}

INLINE u64 arg_register(struct regs *ctx, u32 n)
{
	switch (n) {
	case 0: return REGISTER(ctx, regs[0]);
	case 1: return REGISTER(ctx, regs[1]);
	case 2: return REGISTER(ctx, regs[2]);
	case 3: return REGISTER(ctx, regs[3]);
	case 4: return REGISTER(ctx, regs[4]);
	case 5: return REGISTER(ctx, regs[5]);
	case 6: return REGISTER(ctx, regs[6]);
	case 7: return REGISTER(ctx, regs[7]);
	case 8: return REGISTER(ctx, regs[8]);
	case 9: return REGISTER(ctx, regs[9]);
	case 10: return REGISTER(ctx, regs[10]);
	case 11: return REGISTER(ctx, regs[11]);
	case 12: return REGISTER(ctx, regs[12]);
	case 13: return REGISTER(ctx, regs[13]);
	case 14: return REGISTER(ctx, regs[14]);
	case 15: return REGISTER(ctx, regs[15]);
	}
	return 0;
}

INLINE u64 numbered_register(struct regs *ctx, u32 n) { return n == 28 ? REGISTER(ctx, regs[28]) : 0; }

#endif

/* Whether a hit is a call of the function, and not a restart after the stack has grown. */
#ifndef CALLED
#define CALLED(probe) (!(SITE(probe).check_taken && branch_taken(ctx)))
#endif

COMMON u64 stack_argument(u64 addr)
{
#if HAS_WINDOW
	return read_word(addr);
#else
	return read_word(addr & ~7ull) >> (addr & 7) * 8; /* an argument is within one word */
#endif
}

/*
 * An argument, by its number, and for releases that pass arguments on the stack by its offset in the argument area, which
 * follows the return address (amd64) or the saved link register (arm64).
 */
INLINE u64 argument(struct regs *ctx, s64 sp_moved, u32 n, u32 offset)
{
	if (CONFIG(reg_abi))
		return arg_register(ctx, n);
	return stack_argument(stack_pointer(ctx) + sp_moved + 8 + offset);
}

#define ARG(probe, n, offset) argument(ctx, SITE(probe).sp_moved, n, offset)

/* A result where a function returns, by its number. */
#define RESULT(probe, n)                                                                       \
	(SITE(probe).results[n] == LOUPE_NO_SLOT ? arg_register(ctx, n) :                      \
						   read_word(stack_pointer(ctx) + SITE(probe).results[n]))

/* Whether results can be read: a deferred function may have been called by a panic, and then this is not its caller's frame. */
#define RETURNS(probe)                                                                         \
	(!SITE(probe).caller_size || read_word(stack_pointer(ctx) + SITE(probe).sp_moved) - SITE(probe).caller < SITE(probe).caller_size)

/* An argument that is on the stack in every release, by its offset in the argument area. */
#define STACK_ARG(probe, offset) stack_argument(stack_pointer(ctx) + SITE(probe).sp_moved + 8 + (offset))

#ifndef CURRENT_G
/* The g that the thread runs; 0 if no register holds it at this place. */
#define CURRENT_G(probe) (SITE(probe).g_reg == LOUPE_NO_REG ? 0 : numbered_register(ctx, SITE(probe).g_reg))

/*
 * The same for functions without a stack check, which before Go 1.17 do not load g into a register. It reads a field of a
 * kernel struct, so only the probes that require it use it.
 */
#define CURRENT_G_OR_TLS(probe) (SITE(probe).g_reg == LOUPE_NO_REG ? tls_g() : CURRENT_G(probe))

/* The g of a thread that runs Go code before 1.17, which keeps it in thread-local storage. */
#if defined(__TARGET_ARCH_x86)
INLINE u64 tls_g(void) { return read_word(thread_pointer() + (s64)CONFIG(g_tls)); }
#elif defined(__TARGET_ARCH_arm64)
INLINE u64 tls_g(void) { return 0; } /* always in a register */
#endif
#endif

/* The ID of a goroutine; 0 for a thread's own g, or if it cannot be read. */
INLINE u64 goid_of(u64 g) { return g ? read_word(g + CONFIG(g_goid)) : 0; }

/* The current goroutine of the thread to which g0 belongs, on which the scheduler runs; 0 if there is none. */
INLINE u64 user_g(u64 g0)
{
	u64 m = g0 ? read_word(g0 + CONFIG(g_m)) : 0;

	return m ? read_word(m + CONFIG(m_curg)) : 0;
}

/* The fields of a goroutine that probes use. They are in the first words of the g, which are read at once. */
struct goroutine {
	u64 g; /* its address */
	u64 id;
	u64 stack_lo, stack_hi;
#if HAS_WINDOW
	u64 pc, sp, lr, bp; /* see SAVED */
#endif
};

/*
 * A register of a goroutine while it does not run or its thread is on another stack: pc, sp, lr (the link register, where there
 * is one) or bp (the frame pointer).
 */
#if HAS_WINDOW
#define SAVED(gr, name) ((gr)->name)
#else
#define SAVED(gr, name) field((gr)->g, CONFIG(g_sched_##name))
#endif

INLINE u64 head_word(const u64 *head, u32 offset)
{
	return offset / 8 < LOUPE_G_HEAD ? head[offset / 8] : 0;
}

/* Reads a g. Returns whether that succeeded. The ID of a thread's own g is 0. */
INLINE int read_whole_g(struct goroutine *to, u64 g)
{
	to->g = g;
	to->stack_lo = to->stack_hi = 0;
#if HAS_WINDOW
	u64 head[LOUPE_G_HEAD];

	to->pc = to->sp = to->lr = to->bp = 0;
	if (!g || read_memory(head, sizeof(head), g))
		return 0;
	to->id = head_word(head, CONFIG(g_goid));
	to->stack_lo = head_word(head, CONFIG(g_stack));
	to->stack_hi = head_word(head, CONFIG(g_stack) + 8);
	to->pc = head_word(head, CONFIG(g_sched_pc));
	to->sp = head_word(head, CONFIG(g_sched_sp));
	to->lr = head_word(head, CONFIG(g_sched_lr));
	to->bp = head_word(head, CONFIG(g_sched_bp));
#else
	if (!plausible(g, 8))
		return 0;
	to->id = field(g, CONFIG(g_goid));
	to->stack_lo = field(g, CONFIG(g_stack));
	to->stack_hi = field(g, CONFIG(g_stack) + 8);
#endif
	return 1;
}

/* Whether the probes record stacks. Those of most sets do not, and their eBPF programs have no room on their own stack for a whole g. */
#ifndef LOUPE_STACKS
#define LOUPE_STACKS 0
#endif

/* The same. An eBPF program reads only the ID if no stacks are recorded. */
INLINE int read_any_g(struct goroutine *to, u64 g)
{
#if HAS_WINDOW
	if (!LOUPE_STACKS || !CONFIG(stack_depth)) {
		to->g = g;
		to->stack_lo = to->stack_hi = to->pc = to->sp = to->lr = to->bp = 0;
		return g && !read_memory(&to->id, sizeof(to->id), g + CONFIG(g_goid));
	}
#endif
	return read_whole_g(to, g);
}

/* The same for a goroutine. Returns 0 for a thread's own g. */
INLINE int read_goroutine(struct goroutine *to, u64 g) { return read_any_g(to, g) && to->id; }

/* The reported fields of a new goroutine. */
struct newborn {
	u64 id, startpc, gopc, parent;
};

#if HAS_WINDOW
INLINE u64 newborn_word(const u64 *words, u64 g, u32 offset)
{
	u32 at = (offset - CONFIG(g_goid)) / 8;

	if (offset == LOUPE_NO_FIELD)
		return 0;
	return offset >= CONFIG(g_goid) && at < LOUPE_G_HEAD ? words[at] : read_word(g + offset);
}

/* Returns whether that succeeded. The fields are in the words from the ID on, which are read at once. */
INLINE int read_newborn(struct newborn *to, u64 g)
{
	u64 words[LOUPE_G_HEAD];

	if (!g || read_memory(words, sizeof(words), g + CONFIG(g_goid)))
		return 0;
	to->id = words[0];
	to->startpc = newborn_word(words, g, CONFIG(g_startpc));
	to->gopc = newborn_word(words, g, CONFIG(g_gopc));
	to->parent = newborn_word(words, g, CONFIG(g_parent));
	return to->id != 0;
}
#else
INLINE int read_newborn(struct newborn *to, u64 g)
{
	if (!plausible(g, 8))
		return 0;
	to->id = field(g, CONFIG(g_goid));
	to->startpc = field(g, CONFIG(g_startpc));
	to->gopc = field(g, CONFIG(g_gopc));
	to->parent = CONFIG(g_parent) == LOUPE_NO_FIELD ? 0 : field(g, CONFIG(g_parent));
	return to->id != 0;
}
#endif

#include "filters.h"

INLINE int reported(u32 kind) { return (CONFIG(kinds[kind / 64]) >> kind % 64) & 1; }

/* Adds a word to a hash, of which only the highest bits depend on all bits of all words. */
INLINE u64 fold(u64 hash, u64 word) { return (hash ^ word) * 0x9e3779b97f4a7c15ull; }

/* Adds the last word to a hash: all bits of the result depend on the highest bits. */
INLINE u64 mix(u64 hash, u64 word)
{
	hash = fold(hash, word);
	return hash ^ (hash >> 29);
}

/* The two words at a frame pointer. */
struct frame {
	u64 fp, pc;
};

#if HAS_WINDOW
#define WALKABLE(lo, hi) 1
INLINE int read_frame(struct frame *f, u64 fp) { return read_memory(f, sizeof(*f), fp); }
#else
/* Whether frames between lo and hi can be read without further checks than read_frame makes. */
#define WALKABLE(lo, hi) (plausible(lo, 8) && plausible(hi, 8))
INLINE int read_frame(struct frame *f, u64 fp)
{
	if (fp & 7)
		return 1;
	f->fp = field(fp, 0);
	f->pc = field(fp, 8);
	return 0;
}
#endif

/*
 * Executes body for each return address of a stack, following frame pointers. They must be between lo and hi, the
 * bounds of the goroutine's stack, and must increase, because callers are at higher addresses. Anything else ends the walk,
 * so that a corrupt stack cannot loop. Afterwards fp is 0 if the outermost frame was reached.
 */
#define WALK(lo, hi, fp, body)                                                                 \
	for (u32 i = WALKABLE(lo, hi) ? 0 : LOUPE_MAX_STACK; i < LOUPE_MAX_STACK; i++) {       \
		struct frame f;                                                                \
                                                                                               \
		if (n >= CONFIG(stack_depth) || fp - lo > hi - lo ||                           \
		    read_frame(&f, fp) || !f.pc)                                               \
			break;                                                                 \
		body;                                                                          \
		n++;                                                                           \
		if (f.fp <= fp) {                                                              \
			if (!f.fp)                                                             \
				fp = 0;                                                        \
			break;                                                                 \
		}                                                                              \
		fp = f.fp;                                                                     \
	}

/* The return address that top denotes: see hash_slowly. */
INLINE u64 caller_of(u64 lo, u64 hi, u64 top) { return top - lo <= hi - lo ? read_word(top) : top; }

/*
 * If a function is interrupted before it has a frame, or has none, no frame pointer leads to its caller.
 * For a goroutine that the runtime has interrupted (asyncPreempt), returns the word that was on top of its stack; the
 * reader determines whether it is the return address. 0 for others. lo and hi are the bounds of the stack as in WALK.
 */
INLINE u64 hidden_caller(u64 lo, u64 hi, u64 fp)
{
	struct frame f;

	if (!CONFIG(preempt_size) || fp - lo > hi - lo || read_memory(&f, sizeof(f), fp) ||
	    f.pc - CONFIG(preempt_start) >= CONFIG(preempt_size) || f.fp - lo >= hi - lo)
		return 0;
	return read_word(f.fp + sizeof(f));
}

/*
 * Returns a hash of a stack: of the address that top denotes and of those found from the frame pointer fp on.
 * top is 0 (no address), the location of the address on this stack, or the address. This and the next two are separate
 * functions so that the verifier checks their loops only once.
 */
FUNCTION u64 hash_slowly(u64 lo, u64 hi, u64 top, u64 fp)
{
	u64 pc = caller_of(lo, hi, top), id = fold(EPOCH(), pc);
	u32 n = pc != 0;

	WALK(lo, hi, fp, id = fold(id, f.pc))
	return id;
}

#if HAS_WINDOW
/* The same, reading large parts of the stack at once; 0 if that is not possible. */
FUNCTION u64 hash_window(u64 lo, u64 hi, u64 top, u64 fp)
{
	u64 id = EPOCH(), end = hi + sizeof(struct frame), size, base, pc = top, ticket;
	struct loupe_window *w = fp - lo > hi - lo || fp & 7 ? 0 : window_open(&ticket);

	if (!w)
		return 0;
	base = top - lo <= hi - lo && top < fp && !(top & 7) ? top : fp;
	size = window_move(base, end);
	if (base == top)
		pc = window_word(w, 0);
	else if (top - lo <= hi - lo)
		size = 0;
	id = fold(id, pc);
	FORGET(base);

	u32 limit = CONFIG(stack_depth) - IS_SET(window_unknown(w, pc));

	for (u32 i = 0; i < LOUPE_MAX_STACK && i < limit && size; i++) {
		u64 up, at = fp - base;

		if (at + sizeof(struct frame) > size) {
			size = window_move(fp, end);
			base = fp;
			FORGET(base);
			at = 0;
		}
		up = window_word(w, at);
		pc = window_word(w, at + 8);
		if (!pc)
			break;
		id = fold(id, pc);
		if (up <= fp || up - lo > hi - lo || up & 7)
			break;
		fp = up;
	}
	return window_close(w, ticket) && size ? id : 0;
}
#endif

/* Whether a goroutine that will resume at pc was interrupted by the runtime. */
INLINE int interrupted(u64 pc) { return pc - CONFIG(preempt2_start) < CONFIG(preempt2_size); }

/* Sends the addresses of a goroutine's stack. */
FUNCTION int send_stack(u64 g, u64 pc, u64 top, u64 fp, u64 id)
{
	u64 bounds[2];
	u32 n = 0;

	if (read_memory(bounds, sizeof(bounds), g + CONFIG(g_stack)) || bounds[1] < bounds[0] + sizeof(struct frame))
		return 0;

	u64 lo = bounds[0], hi = bounds[1] - sizeof(struct frame), next = caller_of(lo, hi, top);
	u64 hidden = interrupted(pc) ? hidden_caller(lo, hi, fp) : 0;
	struct loupe_stack *s = reserve(LOUPE_KIND_STACK, sizeof(*s), 0);

	if (!s)
		return 0;
	__builtin_memset(&s->r, 0, sizeof(s->r));
	if (pc)
		s->pcs[n++] = pc;
	s->pcs[n] = next;
	if (next && n < CONFIG(stack_depth))
		n++;
	WALK(lo, hi, fp, if (n < LOUPE_MAX_STACK) s->pcs[n] = f.pc)
	s->r.kind = LOUPE_KIND_STACK;
	s->r.stack = id;
	s->r.arg = hidden;
	s->r.value = n;
	s->r.words = sizeof(s->r) / 8 + n;
	s->r.flags = fp != 0;
	s->r.lost = LOST();
	commit(s);
	stack_sent(id);
	return 0;
}

/* The ID of a stack of a goroutine: a hash of pc, unless it is 0, and of the addresses of hash_slowly. 0 if no stacks are requested. */
INLINE u64 stack_id(const struct goroutine *gr, u64 pc, u64 top, u64 fp)
{
	u64 lo = gr->stack_lo, hi = gr->stack_hi - sizeof(struct frame), id = 0, hidden = 0;

	if (!CONFIG(stack_depth) || gr->stack_hi < lo + sizeof(struct frame))
		return 0;
	if (interrupted(pc))
		hidden = hidden_caller(lo, hi, fp);
#if HAS_WINDOW
	id = hash_window(lo, hi, top, fp);
#endif
	if (!id)
		id = hash_slowly(lo, hi, top, fp);
	if (hidden)
		id = fold(id, hidden);
	return mix(id, pc) | 1;
}

/* The same. If the stack is new, its addresses are sent. */
COMMON u64 stack_of(const struct goroutine *gr, u64 pc, u64 top, u64 fp)
{
	u64 id = stack_id(gr, pc, top, fp);

	if (id && !stack_known(id))
		send_stack(gr->g, pc, top, fp, id);
	return id;
}

/* The stack of the goroutine that runs at a probe in one of its own functions. */
#define OWN_STACK(probe, gr) stack_of(gr, 0, CALLER(probe), frame_pointer(ctx))

/* The same for a g that may be a thread's own, which has no stack of a goroutine. */
#define ACTOR_STACK(probe, gr) ((gr)->id ? OWN_STACK(probe, gr) : 0)

/*
 * The stack of a goroutine that has called systemstack. Its frame pointer is that of systemstack, or of the caller in releases
 * where systemstack has no frame and its return address is where the stack pointer was.
 */
INLINE u64 system_stack(const struct goroutine *gr)
{
	return stack_of(gr, 0, CONFIG(systemstack_frameless) ? SAVED(gr, sp) : 0, SAVED(gr, bp));
}

/*
 * The stack of a goroutine that has stopped. The address at which it resumes and its frame pointer were saved, by mcall or in
 * the stack check of a prologue (checked means that this is possible). The check precedes the function's frame, so that
 * the frame pointer is the caller's, and the return address is where the call stored it.
 */
INLINE u64 stopped_stack(const struct goroutine *gr, int checked)
{
	u64 pc = SAVED(gr, pc);

	return stack_of(gr, pc, checked && !interrupted(pc) ? RETURN_ADDRESS(gr) : 0, SAVED(gr, bp));
}

/*
 * The goroutine for which the runtime allocates, whose g may be a thread's own after systemstack or mcall, and where its stack
 * begins. The ID is 0 if there is none.
 */
INLINE void allocator(struct goroutine *gr, u64 g, u64 *top, u64 *fp)
{
	if (read_goroutine(gr, g))
		return;
	if (read_goroutine(gr, user_g(g))) {
		*top = CONFIG(systemstack_frameless) ? SAVED(gr, sp) : 0;
		*fp = SAVED(gr, bp);
	} else {
		gr->id = 0;
	}
}

/* The address that a probed function returns to, or where it is on the stack. */
#if defined(__TARGET_ARCH_x86)
#define CALLER(probe) (stack_pointer(ctx) + (s64)SITE(probe).sp_moved)
#elif defined(__TARGET_ARCH_arm64)
#define CALLER(probe) (SITE(probe).sp_moved ? stack_pointer(ctx) : REGISTER(ctx, regs[30]))
#endif

/* What a goroutine has allocated since it was listed; 0 if that is unknown. */
INLINE const struct loupe_allocated *allocated_by(u64 goid)
{
	return CONFIG(allocated) ? allocated_find(goid) : 0;
}

/* Adds that to a record of the goroutine. */
INLINE void fill_allocated(struct loupe_record *r, u64 goid)
{
	const struct loupe_allocated *sums = allocated_by(goid);

	if (!sums)
		return;
	r->value = sums->bytes;
	r->arg = sums->objects;
}

INLINE struct loupe_record *fill(struct loupe_record *r, u32 kind, u32 tid, u64 goid)
{
	r->time = event_time(goid);
	r->lost = LOST();
	r->tid = THREAD_ID(tid);
	r->g = goid;
	r->arg = r->value = r->stack = 0;
	r->kind = kind;
	r->reason = r->trace_reason = r->flags = 0;
	r->words = sizeof(*r) / 8;
	r->proc = 0;
	return r;
}

/* Begins a record of an event. Returns 0 if there is no room. */
COMMON struct loupe_record *begin(u32 kind, u32 tid, u64 goid)
{
	struct loupe_record *r = reserve(kind, sizeof(*r), 1);

	return r ? fill(r, kind, tid, goid) : 0;
}

#endif
