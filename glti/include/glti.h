/*
 * glti.h is the C interface of the Go Tool Interface, for agents that are written in C, C++, Rust or another language, and that
 * are built without knowledge of the Go release of the program that loads them. Package github.com/loupe-go/loupe/glti is the same
 * interface for Go; its documentation describes events and classes in more detail.
 *
 * An agent is a shared library that exports InitGltiAgent and, optionally, ShutdownGltiAgent. The file is ABI and API: constants
 * keep their values, struct glti_env and struct glti_event keep their members and only get new ones at the end.
 *
 * A Go program for Linux that `loupe go build` built, and that contains cgo, loads the agents of the environment variable GO_GLTI_AGENT
 * when it starts:
 *
 *     GO_GLTI_AGENT='/opt/vendor/lib/agent_$v.so' ./server
 *
 * The value is a list, separated by colons. $v is the version of Go in the program (go1.27.4), $a its architecture (amd64), $o its
 * operating system (linux), and $$ is $. A path without a slash is a file of the current directory. A program that runs with the rights
 * of another user (setuid, capabilities) ignores the variable. An agent that cannot be loaded is a line on stderr; the program runs
 * without it.
 *
 * Version 1.1 adds profile_interval and snapshot.
 */
#ifndef GLTI_H
#define GLTI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this file: the minor version grows when members are added, the major version if an agent must be changed. */
#define GLTI_VERSION_MAJOR 1
#define GLTI_VERSION_MINOR 1
#define GLTI_VERSION ((uint32_t)GLTI_VERSION_MAJOR << 16 | GLTI_VERSION_MINOR)

#if defined(_WIN32)
#define GLTI_EXPORT __declspec(dllexport)
#else
#define GLTI_EXPORT __attribute__((visibility("default")))
#endif

/* GLTI_HAS reports whether the host has a member of struct glti_env. A host that is older than this file lacks the last ones. */
#define GLTI_HAS(env, member) \
	((env)->size >= offsetof(struct glti_env, member) + sizeof((env)->member))

/* Results of functions. */
enum glti_status {
	GLTI_OK = 0,
	GLTI_UNAVAILABLE = 1, /* the program lacks what the function requires; capability says why */
	GLTI_INVALID = 2,     /* an argument is invalid */
	GLTI_CLOSED = 3,      /* the agent has been shut down, or could not be initialized */
};

/* Events. The numbers are those of Go's first format of execution traces. */
enum glti_event_number {
	GLTI_EV_PROC_START = 5,
	GLTI_EV_PROC_STOP = 6,
	GLTI_EV_GC_START = 7,
	GLTI_EV_GC_DONE = 8,
	GLTI_EV_GC_STW_START = 9,
	GLTI_EV_GC_STW_DONE = 10,
	GLTI_EV_GC_SWEEP_START = 11,
	GLTI_EV_GC_SWEEP_DONE = 12,
	GLTI_EV_GO_CREATE = 13,
	GLTI_EV_GO_START = 14,
	GLTI_EV_GO_END = 15,
	GLTI_EV_GO_STOP = 16,
	GLTI_EV_GO_SCHED = 17,
	GLTI_EV_GO_PREEMPT = 18,
	GLTI_EV_GO_SLEEP = 19,
	GLTI_EV_GO_BLOCK = 20,
	GLTI_EV_GO_UNBLOCK = 21,
	GLTI_EV_GO_BLOCK_SEND = 22,
	GLTI_EV_GO_BLOCK_RECV = 23,
	GLTI_EV_GO_BLOCK_SELECT = 24,
	GLTI_EV_GO_BLOCK_SYNC = 25,
	GLTI_EV_GO_BLOCK_COND = 26,
	GLTI_EV_GO_BLOCK_NET = 27,
	GLTI_EV_GO_SYSCALL = 28,
	GLTI_EV_GO_SYS_EXIT = 29,
	GLTI_EV_GO_SYS_BLOCK = 30,
	GLTI_EV_GO_WAITING = 31,
	GLTI_EV_GO_IN_SYSCALL = 32,
	GLTI_EV_HEAP_ALLOC = 33,
	GLTI_EV_NEXT_GC = 34,
	GLTI_EV_TIMER_GOROUTINE = 35,
	GLTI_EV_FUTILE_WAKEUP = 36,
	GLTI_EV_STRING = 37,
	GLTI_EV_GO_START_LOCAL = 38,
	GLTI_EV_GO_UNBLOCK_LOCAL = 39,
	GLTI_EV_GO_SYS_EXIT_LOCAL = 40,
	GLTI_EV_GO_START_LABEL = 41,
	GLTI_EV_GO_BLOCK_GC = 42,
	GLTI_EV_GC_MARK_ASSIST_START = 43,
	GLTI_EV_GC_MARK_ASSIST_DONE = 44,
	GLTI_EV_USER_TASK_CREATE = 45,
	GLTI_EV_USER_TASK_END = 46,
	GLTI_EV_USER_REGION = 47,
	GLTI_EV_USER_LOG = 48,
};

/* Classes of callbacks; see "Threads" below. */
enum glti_class {
	GLTI_CLASS_NONE = 0,
	GLTI_CLASS_A = 1, /* on the goroutine of the event */
	GLTI_CLASS_B = 2, /* inside the scheduler: raw callbacks only */
	GLTI_CLASS_C = 3, /* from a buffer, later */
};

/* Profiles. */
enum glti_profile {
	GLTI_PROFILE_BLOCK = 0,
	GLTI_PROFILE_CPU = 1,
	GLTI_PROFILE_GOROUTINE = 2,
	GLTI_PROFILE_HEAP = 3,
	GLTI_PROFILE_MUTEX = 4,
	GLTI_PROFILE_THREAD_CREATION = 5,
};

/* A goroutine. The runtime reuses addresses, but not IDs: compare both. All members are 0 if there is no goroutine. */
struct glti_g {
	uint64_t addr; /* of the descriptor, runtime.g */
	uint64_t id;   /* as tracebacks show it */
};

/* An event. A callback must not keep a pointer to it, or to its strings. */
struct glti_event {
	uint8_t number; /* enum glti_event_number */
	uint8_t late;   /* 1 if it was delivered from a buffer */
	uint8_t reserved[2];
	int32_t p;         /* processor, or -1 if it is not known */
	int64_t time;      /* when it happened, in nanoseconds of the clock of now */
	struct glti_g g;   /* the goroutine that the event is about */
	struct glti_g by;  /* the goroutine that caused it */
	uint64_t args[2];  /* numbers, as in Record.Args of package glti */
	/* The members that follow are not there for raw callbacks. */
	int64_t end;         /* when the operation that began at time ended, 0 if that is not known */
	const char *text[2]; /* strings, as in Record.Text; UTF-8, or NULL */
};

/* A function of the program. The strings live as long as the program. */
struct glti_func {
	const char *name;
	const char *file;
	uint64_t entry;
	int32_t line;
};

/* What holds for a function in this program. The strings live as long as the program. */
struct glti_capability {
	uint8_t available;
	uint8_t cls;        /* enum glti_class */
	const char *why;    /* what is missing, NULL if nothing is */
	const char *limits; /* what does not hold although the function is available, NULL if everything holds */
};

/* A stack of a profile. */
struct glti_stack {
	const uint64_t *pcs; /* return addresses, leaf first */
	size_t depth;
	int64_t values[4]; /* block, mutex: count, cycles. heap: bytes and objects allocated, bytes and objects freed. Others: 1 */
	struct glti_g g;   /* zeros if it is unknown, or if there are several */
};

typedef void (*glti_event_fn)(const struct glti_event *event, void *arg);
typedef void (*glti_raw_fn)(const struct glti_event *event, void *arg);
typedef void (*glti_panic_fn)(const char *value, void *arg);
typedef void (*glti_profile_fn)(const struct glti_stack *stacks, size_t n, void *arg);

/* A registered callback. */
typedef uint64_t glti_registration;

/*
 * The table of functions that the host gives to an agent. It lives as long as the program. Each function takes the table as its
 * first argument. Functions that return int32_t return an enum glti_status. Check with GLTI_HAS before using a member that was
 * added after version 1.0.
 *
 * Threads
 *
 * InitGltiAgent runs on the main thread before the program's own code, and before the program has other threads than those that agents
 * create. ShutdownGltiAgent runs on a thread of its own while the other threads run, in the reverse order of the initialization. The
 * thread that ends the program waits for it, and may be in a signal handler or hold locks of libc. If ShutdownGltiAgent crashes or does
 * not return within 5 seconds, the host prints a line, and the program ends as it would without agents.
 *
 * Functions of the table can be called on any thread at any time from the call of InitGltiAgent on, also on threads that the agent
 * creates, but not by raw callbacks, not in signal handlers, and not after ShutdownGltiAgent returned. Callbacks run at the same time on
 * several threads.
 *
 * Class A: a callback runs on the thread that executes the goroutine, on the thread's system stack. It may call libc, lock, block and
 * call functions of the table; the goroutine waits for it. Events that it causes are not delivered to callbacks of class A.
 *
 * Class B (register_raw): a callback runs inside the scheduler, which may hold locks. It must only use its stack, at most 1 KiB of it,
 * and atomic operations on memory of the agent. It must not call libc or the table, lock, block, or raise a signal. It may
 * run until a moment after unregister returned.
 *
 * Class C: a callback runs on a thread of the host that reads the buffers. It may do what class A may. It delays other callbacks; events
 * are lost, and counted in lost, if it is too slow. The thread is created when all agents have been initialized, or by the first
 * registration after that. It delivers an event after 10 milliseconds at most, if it is not behind.
 *
 * No callback may unwind into the host: a C++ exception, a Rust panic or longjmp that leaves a callback ends the program.
 */
struct glti_env {
	uint32_t size;          /* of the table of the host, in bytes */
	uint32_t version;       /* GLTI_VERSION of the host */
	const char *go_version; /* such as "go1.27.4" */
	void *host;             /* of the host */

	/* now returns the time of the runtime's monotonic clock, in nanoseconds. */
	int64_t (*now)(const struct glti_env *env);

	/* capability describes a method of package glti, such as "RegisterTraceEvGoCreate" or "GetG". */
	int32_t (*capability)(const struct glti_env *env, const char *method, struct glti_capability *result);

	/*
	 * register_event registers a callback for an event (class A or C), register_raw a raw one (class B). capability has the class. An
	 * event of class A is late, as one of class C, where code may not run. Callbacks of an event are called in no particular order.
	 * register_raw is available for the events that capability names for "HandleRaw"; the others return GLTI_UNAVAILABLE.
	 *
	 * GLTI_EV_GO_WAITING and GLTI_EV_GO_IN_SYSCALL are states. The callback is called once for each goroutine that is in the state after the
	 * registration, or after all agents have been initialized; flush returns when it has been called for all. GLTI_EV_STRING (class A) is a
	 * string that an annotation is the first to use; those that are known at the registration come late.
	 */
	int32_t (*register_event)(const struct glti_env *env, uint8_t event, glti_event_fn fn, void *arg, glti_registration *result);
	int32_t (*register_raw)(const struct glti_env *env, uint8_t event, glti_raw_fn fn, void *arg, glti_registration *result);

	/*
	 * register_panic registers a callback for panics that end the program (class A). value is the panic's value as text, as the
	 * runtime prints it, cut off after 1 KiB. It is called at most once.
	 */
	int32_t (*register_panic)(const struct glti_env *env, glti_panic_fn fn, void *arg, glti_registration *result);

	/*
	 * register_profile registers a handler for a profile. The unit of rate is that of the Register method of package glti; it is at least
	 * 1. The handler is called with each snapshot, every 10 seconds, on a thread of the host that may do what class C may. It must not keep
	 * pointers to stacks. Records of block, mutex and heap profiles are sums since the registration; other profiles have a record for each
	 * sample since the last snapshot, for each goroutine, and for each thread that was created since the last snapshot. Calls do not overlap.
	 * The samples begin a moment later, at the latest when a call of snapshot that follows returns. The application's own profiling goes on as
	 * if there was no agent. Samples for which there is no room or memory are counted in lost.
	 */
	int32_t (*register_profile)(const struct glti_env *env, uint8_t profile, int32_t rate, glti_profile_fn fn, void *arg, glti_registration *result);

	/* unregister removes a callback. A call that has begun continues. */
	int32_t (*unregister)(const struct glti_env *env, glti_registration registration);

	/*
	 * flush returns when events of class C that happened before have been delivered. Callbacks must not call it: on the thread of class C
	 * it returns GLTI_INVALID. In InitGltiAgent it does not wait for anything.
	 */
	int32_t (*flush)(const struct glti_env *env);

	/*
	 * lost returns the number of events that were lost: because buffers were full, or because they have strings, which buffers have not,
	 * and code might not run.
	 */
	uint64_t (*lost)(const struct glti_env *env);

	/* current stores the current goroutine, zeros on a thread that executes none. */
	int32_t (*current)(const struct glti_env *env, struct glti_g *result);

	/*
	 * get_local and set_local access the address that the agent has associated with a goroutine, or NULL, on any thread. A goroutine
	 * that has ended has none: set_local returns GLTI_INVALID.
	 */
	int32_t (*get_local)(const struct glti_env *env, const struct glti_g *g, void **result);
	int32_t (*set_local)(const struct glti_env *env, const struct glti_g *g, void *value);

	/*
	 * resolve_symbol returns the address of a Go function or global variable, or 0. Variables are found if the program's file has a
	 * symbol table, which is searched.
	 */
	uint64_t (*resolve_symbol)(const struct glti_env *env, const char *name);

	/* func_for_pc describes the function that contains an address. */
	int32_t (*func_for_pc)(const struct glti_env *env, uint64_t pc, struct glti_func *result);

	/* Since version 1.1: */

	/* profile_interval sets the time between two snapshots of the agent's profiles, at least a millisecond; 0 selects 10 seconds. */
	int32_t (*profile_interval)(const struct glti_env *env, int64_t ns);

	/*
	 * snapshot takes a snapshot of all profiles that the agent has handlers for, and returns when the handlers have returned. Handlers must not call
	 * it: on their thread it returns GLTI_INVALID. In InitGltiAgent it does nothing. In ShutdownGltiAgent it returns GLTI_CLOSED: Go code may not
	 * run any more.
	 */
	int32_t (*snapshot)(const struct glti_env *env);
};

/*
 * InitGltiAgent is exported by an agent. The host calls it once. If the result is not GLTI_OK, the host reports that the agent could not
 * start, removes its callbacks, and does not call ShutdownGltiAgent. An agent checks that the major version is its own.
 */
GLTI_EXPORT int32_t InitGltiAgent(const struct glti_env *env);

/*
 * ShutdownGltiAgent may be exported by an agent. The host calls it once before the program exits. The code is the exit status of the
 * program, 2 after a panic or a fatal error of the runtime. If signal n ends the program, it is 128+n, also if the runtime prints a
 * traceback and exits with status 2 because of the signal. It is not called after SIGKILL, or if C code calls exit.
 */
GLTI_EXPORT void ShutdownGltiAgent(int32_t exit_code);

#ifdef __cplusplus
}
#endif

#endif
