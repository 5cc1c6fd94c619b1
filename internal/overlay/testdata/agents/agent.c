// A native agent for tests. It prints a line to stderr for each of its functions. Macros change what it is, and what it does.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef NAME
#define NAME "agent"
#endif
#define SAY(...) do { char line[256]; int n = snprintf(line, sizeof line, NAME ": " __VA_ARGS__); if (write(2, line, n) < 0) abort(); } while (0)

struct env {
	uint32_t size, version;
	const char *go_version;
};

static volatile int zero;

static void
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
	return deep(n + 1) + frame[0];
}
#endif

#ifdef TABLE
const uint32_t GltiAgentVersion = TABLE;
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

#ifndef NO_INIT
void
InitGltiAgent(const struct env *env)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	int threads = 0;

	while ((entry = readdir(tasks)) != NULL)
		threads += entry->d_name[0] != '.';
	closedir(tasks);
	SAY("init, %d thread, table %u of %s, %s\n", threads, env->version, env->go_version, env->size >= sizeof *env ? "complete" : "incomplete");
#ifdef CRASHES_IN_INIT
	crash();
#endif
#ifdef ABORTS_IN_INIT
	abort();
#endif
}
#endif

#ifndef NO_SHUTDOWN
void
ShutdownGltiAgent(int code)
{
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
