// A native agent for tests. It prints a line to stderr for each of its functions. Macros change what it is, and what it does.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "glti.h"

#ifndef NAME
#define NAME "agent"
#endif
#define SAY(...) do { char line[256]; int n = snprintf(line, sizeof line, NAME ": " __VA_ARGS__); if (write(2, line, n) < 0) abort(); } while (0)

static volatile int zero;

static inline void
crash(void)
{
	*(volatile int *)(intptr_t)zero = 1;
}

#ifdef OVERFLOWS
static int
deep(int n)
{
	volatile char frame[4096];

	frame[n % 4096] = n;
	if (n < zero)
		return 0;
	return deep(n + 1) + frame[0];
}
#endif

#ifdef UNRESOLVED
void no_such_function(void);
void unresolved(void) { no_such_function(); }
#endif

#ifdef CRASHES_AT_LOAD
__attribute__((constructor)) static void
load(void)
{
	crash();
}
#endif

#ifdef TRACES
static const struct glti_env *host;
static uint64_t calls;

static void
count(const struct glti_event *event, void *arg)
{
	(void)event;
	(void)arg;
	__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
}
#endif

#ifndef NO_INIT
int32_t
InitGltiAgent(const struct glti_env *env)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	int threads = 0;

	while ((entry = readdir(tasks)) != NULL)
		threads += entry->d_name[0] != '.';
	closedir(tasks);
	SAY("init, %d thread, table %u.%u of %s, %s\n", threads, env->version >> 16, env->version & 0xffff, env->go_version,
	    GLTI_HAS(env, func_for_pc) ? "complete" : "incomplete");
#ifdef TRACES
	glti_registration registration;
	int event;

	host = env;
	for (event = GLTI_EV_PROC_START; event <= GLTI_EV_USER_LOG; event++) {
		env->register_event(env, event, count, NULL, &registration);
		env->register_raw(env, event, count, NULL, &registration);
	}
#endif
#ifdef CRASHES_IN_INIT
	crash();
#endif
#ifdef ABORTS_IN_INIT
	abort();
#endif
#ifdef REFUSES
	return GLTI_UNAVAILABLE;
#endif
	return GLTI_OK;
}
#endif

#ifndef NO_SHUTDOWN
void
ShutdownGltiAgent(int32_t code)
{
#ifdef TRACES
	if (host->flush(host) != GLTI_OK || __atomic_load_n(&calls, __ATOMIC_RELAXED) == 0)
		SAY("no events\n");
#endif
	SAY("shutdown %d\n", code);
#ifdef CRASHES
	crash();
#endif
#ifdef ABORTS
	abort();
#endif
#ifdef OVERFLOWS
	SAY("%d\n", deep(0));
#endif
#ifdef HANGS
	for (;;)
		pause();
#endif
}
#endif
