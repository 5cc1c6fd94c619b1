//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The eBPF program that samples the processor time of threads of a Go program. It runs on each processor at each tick of a clock
 * and does nothing if another process uses the processor. About one in config.every ticks is a sample.
 *
 * A sample is the state of the thread: its registers in user mode, the goroutine that it runs, and copies of the stacks from
 * which the reader computes the call stack. While a thread runs on its system stack, its goroutine's stack continues the call
 * stack, so both are copied. The state is copied when the tick occurs, so its parts belong together.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

typedef __u8 u8;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;

#define INLINE static __attribute__((always_inline, unused))

enum loupe_sample_limit {
	LOUPE_STACK_BYTES = 32768, /* the part of one stack that is copied, from its innermost frame */
	LOUPE_OUTERMOST = 256,     /* the size of the outermost frame of a system stack */
	LOUPE_CPUS = 1024,
	LOUPE_NO_FIELD = 0x7fffffff, /* the offset of a field that the release does not have */
};

enum loupe_sample_flag {
	LOUPE_IN_KERNEL = 1, /* the thread was in the kernel */
};

/* Offsets in structs of the Go runtime. */
struct loupe_sample_config {
	u32 tgid;        /* of the target */
	u32 every;       /* ticks per sample */
	u64 ns_dev, ns_ino; /* the PID namespace of tgid; 0: the initial one */
	u64 tick;        /* nanoseconds between two ticks */
	u64 gc_times;    /* the address of runtime.work.tSweepTerm; 0: not wanted */
	u64 has_tls;     /* g_tls is known */
	s64 g_tls;       /* location of the current g, relative to the thread pointer */
	u32 g_stack, g_m, g_goid, g_startpc, g_labels, g_sched_pc, g_sched_sp, g_sched_lr, g_syscallpc, g_syscallsp;
	u32 m_g0, m_gsignal, m_curg, m_vdso_pc, m_vdso_sp, m_ncgo, m_preemptoff_len;
	u32 unused;
};

/* A sample, which the copies of two stacks follow. Addresses and fields are 0 where they do not exist. */
struct loupe_sample {
	u64 time;             /* CLOCK_MONOTONIC */
	u32 tid;              /* in the initial PID namespace */
	u32 unused;
	u64 pc, sp, lr, fp;   /* in user mode */
	u64 m;                /* 0: the thread does not run Go code, or its g was not found */
	u64 curg;             /* the goroutine of the thread */
	u64 curg_m;           /* curg.m */
	u64 goid, startpc, labels;
	u64 g_lo, g_hi;       /* bounds of the goroutine's stack */
	u64 sched_pc, sched_sp, sched_lr;
	u64 syscall_pc, syscall_sp;
	u64 vdso_pc, vdso_sp;
	u64 ncgo;             /* calls of C functions that are in progress */
	u64 preemptoff;       /* length of m.preemptoff: a phase of the garbage collector */
	u64 base, g_base;     /* addresses of the copies: of the thread's stack, and of the goroutine's if that is another one */
	u32 size, g_size;     /* their sizes */
	u64 exec_id;          /* differs between programs that the process has executed */
	u64 gc_times[4];      /* when the last garbage collection entered its phases */
	u32 flags;
	u32 weight; /* periods of processor time that the sample stands for */
};

/* The processor time of a thread, in nanoseconds. */
struct loupe_thread {
	u64 start;   /* start time of the thread: another one may have the same ID */
	u64 base;    /* processor time of the thread when sampling began */
	u64 ran;     /* the kernel's account at the last tick */
	u64 since;   /* ticks since the account changed */
	u64 phase;   /* added to the time, so that the first sample is not always due after a whole period */
	u64 periods; /* that the samples of the thread stand for */
};

struct loupe_control {
	u64 enabled; /* CLOCK_MONOTONIC when sampling began */
	u64 lost;    /* periods of samples for which the ring buffer had no room */
};

/* Samples as they are assembled, one for each CPU. The program cannot interrupt itself. */
struct loupe_scratch {
	struct loupe_sample s;
	u8 data[2 * LOUPE_STACK_BYTES];
};

#if defined(__TARGET_ARCH_x86)
struct regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#define USER_PC(r) ((r)->ip)
#define G_REGISTER(r) ((r)->r14)
#define LINK_REGISTER(r) ((r)->r12) /* see threadRegs in package goproc */
#define FRAME_POINTER(r) ((r)->bp)
#define IN_KERNEL(ctx) (((ctx)->regs.cs & 3) == 0)
#elif defined(__TARGET_ARCH_arm64)
struct regs {
	u64 regs[31], sp, pc, pstate;
};
#define USER_PC(r) ((r)->pc)
#define G_REGISTER(r) ((r)->regs[28])
#define LINK_REGISTER(r) ((r)->regs[30])
#define FRAME_POINTER(r) ((r)->regs[29])
#define IN_KERNEL(ctx) (((ctx)->regs.pstate & 0xf) != 0)
#endif

/* struct bpf_perf_event_data of linux/bpf_perf_event.h. */
struct event_data {
	struct regs regs;
	u64 sample_period;
	u64 addr;
};

/* The only fields of kernel structs that are read; BTF of the kernel provides their offsets. */
struct thread_struct {
	unsigned long fsbase;
} __attribute__((preserve_access_index));

struct sched_entity {
	u64 sum_exec_runtime;
} __attribute__((preserve_access_index));

struct task_struct {
	struct sched_entity se;
	u64 start_time;
	u64 self_exec_id;
	struct thread_struct thread;
} __attribute__((preserve_access_index));

const volatile struct loupe_sample_config config = {};
struct loupe_control control SEC(".data.control") = {};

/* The Go declarations are generated only for types that are referenced. */
const struct loupe_sample *type_sample __attribute__((unused));
const enum loupe_sample_limit *type_limit __attribute__((unused));
const enum loupe_sample_flag *type_flag __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} samples SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 16);
	__type(key, u32);
	__type(value, struct loupe_thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LOUPE_CPUS);
	__type(key, u32);
	__type(value, struct loupe_scratch);
} scratches SEC(".maps");

/* A word of the target; 0 if it cannot be read. */
INLINE u64 word(u64 addr)
{
	u64 w = 0;

	if (bpf_probe_read_user(&w, sizeof(w), (const void *)addr))
		return 0;
	return w;
}

INLINE u64 field(u64 object, u32 offset) { return offset == LOUPE_NO_FIELD ? 0 : word(object + offset); }

/* The m of a g, if it belongs to a thread. Anything else is not a g that a thread runs. */
INLINE u64 m_of(u64 g)
{
	u64 m = g ? field(g, config.g_m) : 0;

	if (m && (field(m, config.m_curg) == g || field(m, config.m_g0) == g || field(m, config.m_gsignal) == g))
		return m;
	return 0;
}

/* The m of the thread; 0 if it does not run Go code. */
INLINE u64 current_m(const struct task_struct *task, const struct regs *r)
{
#if defined(__TARGET_ARCH_x86)
	if (config.has_tls) {
		u64 base = 0;

		bpf_probe_read_kernel(&base, sizeof(base), &task->thread.fsbase);
		return m_of(word(base + config.g_tls));
	}
#endif
	return m_of(G_REGISTER(r));
}

/* Copies the stack from an address up to end. Returns the number of bytes. */
INLINE u32 copy_stack(u8 *to, u64 from, u64 end)
{
	u64 size = end - from;

	if (from >= end)
		return 0;
	if (size > LOUPE_STACK_BYTES)
		size = LOUPE_STACK_BYTES;
	if (!bpf_probe_read_user(to, size, (const void *)from))
		return size;
	/* A page is missing: the stack of a thread that C code has created ends somewhere. Up to the start of a page. */
	for (u32 pages = LOUPE_STACK_BYTES / 8192; pages > 0; pages /= 2) {
		if (size <= pages * 4096)
			continue;
		size = pages * 4096 - (from & 4095);
		if (!bpf_probe_read_user(to, size, (const void *)from))
			return size;
	}
	size = 4096 - (from & 4095);
	if (bpf_probe_read_user(to, size, (const void *)from))
		return 0;
	return size;
}

/*
 * The number of periods of processor time that a sample of this thread at this tick stands for; 0 if no sample is due.
 *
 * The kernel's account of the thread is exact, but it is updated only when the kernel schedules and at its own ticks. The ticks
 * since then are added to it. A thread that starts and ends between two ticks is not seen. Those that are seen stand for them: the
 * first tick counts as the time since the previous one.
 */
INLINE u32 due(const struct task_struct *task, u32 tid)
{
	u64 start = 0, ran = 0, time, periods;

	bpf_probe_read_kernel(&start, sizeof(start), &task->start_time);
	bpf_probe_read_kernel(&ran, sizeof(ran), &task->se.sum_exec_runtime);

	struct loupe_thread *t = bpf_map_lookup_elem(&threads, &tid);

	if (!t || t->start != start) {
		struct loupe_thread fresh = {
			.start = start, .ran = ran, .base = start > control.enabled ? 0 : ran,
			.phase = (((start >> 10) ^ tid) * 0x9e3779b97f4a7c15ull >> 32) % (config.every * config.tick),
		};

		bpf_map_update_elem(&threads, &tid, &fresh, BPF_ANY);
		t = bpf_map_lookup_elem(&threads, &tid);
		if (!t)
			return 0;
	}
	if (ran != t->ran)
		t->since = 0;
	t->ran = ran;
	t->since++;
	time = ran - t->base + t->since * config.tick + t->phase;
	periods = time / (config.every * config.tick);
	if (periods <= t->periods)
		return 0;
	periods -= t->periods;
	t->periods += periods;
	return periods;
}

/* The ID of the thread if it belongs to the target, else 0. It is that of the initial PID namespace. */
INLINE u32 target_thread(void)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 tgid = id >> 32;

	if (config.ns_ino) {
		struct bpf_pidns_info ns = {};

		if (bpf_get_ns_current_pid_tgid(config.ns_dev, config.ns_ino, &ns, sizeof(ns)))
			return 0;
		tgid = ns.tgid;
	}
	return tgid == config.tgid ? (u32)id : 0;
}

INLINE u64 at_least(u64 lowest, u64 sp, u64 lo, u64 hi) { return sp >= lo && sp < hi && (!lowest || sp < lowest) ? sp : lowest; }

/* Reads the goroutine of the thread. */
INLINE void read_goroutine(struct loupe_sample *s)
{
	u64 g = field(s->m, config.m_curg);

	s->vdso_pc = field(s->m, config.m_vdso_pc);
	s->vdso_sp = field(s->m, config.m_vdso_sp);
	s->ncgo = (u32)field(s->m, config.m_ncgo);
	s->preemptoff = field(s->m, config.m_preemptoff_len);
	if (!g)
		return;
	s->curg = g;
	s->curg_m = field(g, config.g_m);
	s->goid = field(g, config.g_goid);
	s->startpc = field(g, config.g_startpc);
	s->labels = field(g, config.g_labels);
	s->g_lo = field(g, config.g_stack);
	s->g_hi = field(g, config.g_stack + 8);
	s->sched_pc = field(g, config.g_sched_pc);
	s->sched_sp = field(g, config.g_sched_sp);
	s->sched_lr = field(g, config.g_sched_lr);
	s->syscall_pc = field(g, config.g_syscallpc);
	s->syscall_sp = field(g, config.g_syscallsp);
}

/*
 * The upper end of the stack that the thread runs on, if it is one of the runtime's, else a plausible one. If C code has allocated a
 * system stack, the upper end that the runtime knows is in its outermost frame (mstart0 in runtime/proc.go).
 */
INLINE u64 stack_end(const struct loupe_sample *s)
{
	u64 own[2] = { field(s->m, config.m_g0), field(s->m, config.m_gsignal) };

	if (s->sp - s->g_lo < s->g_hi - s->g_lo)
		return s->g_hi;
	for (int i = 0; i < 2; i++) {
		u64 lo = own[i] ? field(own[i], config.g_stack) : 0, hi = own[i] ? field(own[i], config.g_stack + 8) : 0;

		if (s->sp - lo < hi - lo)
			return hi + LOUPE_OUTERMOST;
	}
	return s->sp + LOUPE_STACK_BYTES;
}

SEC("perf_event") int sample(struct event_data *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	u32 cpu = bpf_get_smp_processor_id(), tid = target_thread(), size, g_size, weight;
	struct regs r = {};

	if (!tid || !control.enabled)
		return 0;
	weight = due(task, tid);
	if (!weight)
		return 0;

	struct loupe_scratch *w = bpf_map_lookup_elem(&scratches, &cpu);

	if (!w || bpf_probe_read_kernel(&r, sizeof(r), (const void *)bpf_task_pt_regs(task))) {
		__sync_fetch_and_add(&control.lost, weight);
		return 0;
	}

	struct loupe_sample *s = &w->s;

	__builtin_memset(s, 0, sizeof(*s));
	s->time = bpf_ktime_get_ns();
	s->tid = tid;
	bpf_probe_read_kernel(&s->exec_id, sizeof(s->exec_id), &task->self_exec_id);
	s->weight = weight;
	s->pc = USER_PC(&r);
	s->sp = r.sp;
	s->lr = LINK_REGISTER(&r);
	s->fp = FRAME_POINTER(&r);
	s->flags = IN_KERNEL(ctx) ? LOUPE_IN_KERNEL : 0;
	if (config.gc_times)
		bpf_probe_read_user(s->gc_times, sizeof(s->gc_times), (const void *)config.gc_times);
	s->m = current_m(task, &r);
	s->base = s->sp;
	g_size = 0;
	if (s->m)
		read_goroutine(s);
	size = copy_stack(w->data, s->sp, stack_end(s));
	if (s->m) {
		if (s->curg && s->sp - s->g_lo >= s->g_hi - s->g_lo) {
			u64 from = at_least(0, s->sched_sp, s->g_lo, s->g_hi);

			from = at_least(from, s->syscall_sp, s->g_lo, s->g_hi);
			from = at_least(from, s->vdso_sp, s->g_lo, s->g_hi);
			s->g_base = from;
			if (size > LOUPE_STACK_BYTES)
				size = LOUPE_STACK_BYTES;
			if (from)
				g_size = copy_stack(w->data + size, from, s->g_hi);
		}
	}
	if (size > LOUPE_STACK_BYTES)
		size = LOUPE_STACK_BYTES;
	if (g_size > LOUPE_STACK_BYTES)
		g_size = LOUPE_STACK_BYTES;
	s->size = size;
	s->g_size = g_size;
	if (bpf_ringbuf_output(&samples, w, sizeof(*s) + size + g_size, BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&control.lost, weight);
	return 0;
}

char sample_license[] SEC("license") = "Dual MIT/GPL";
