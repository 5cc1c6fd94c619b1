// An agent for tests whose callbacks lock, allocate, sleep and use the table of functions. It also registers and unregisters all the time.
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "glti.h"

static const struct glti_env *host;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint_fast64_t calls, changes, profiles, wrong;
static atomic_int over;
static char *last;

static void storm(const struct glti_event *event, void *arg)
{
	uint64_t n = atomic_fetch_add(&calls, 1);
	struct timespec nap = { 0, 1000 };
	struct glti_g current;
	struct glti_func func;
	void *local;

	pthread_mutex_lock(&lock);
	free(last);
	last = malloc(1 + n % 5000);
	memset(last, 1, 1 + n % 5000);
	pthread_mutex_unlock(&lock);
	if (host->current(host, &current) == GLTI_OK && !event->late && current.id == 0)
		atomic_fetch_add(&wrong, 1);
	switch (n % 64) {
	case 0:
		nanosleep(&nap, NULL);
		break;
	case 1: // another goroutine may end at this moment
		if (event->g.addr != 0 && host->set_local(host, &event->g, (void *)(uintptr_t)(event->g.id + 1)) == GLTI_CLOSED && !atomic_load(&over))
			atomic_fetch_add(&wrong, 1);
		break;
	case 2:
		if (host->resolve_symbol(host, "runtime.main") == 0 || host->func_for_pc(host, host->resolve_symbol(host, "runtime.main"), &func) != GLTI_OK)
			atomic_fetch_add(&wrong, 1);
		break;
	}
	if (event->g.addr != 0 && host->get_local(host, &event->g, &local) == GLTI_OK && local != NULL && (uintptr_t)local != event->g.id + 1)
		atomic_fetch_add(&wrong, 1);
	(void)arg;
}

static void profiled(const struct glti_stack *stacks, size_t n, void *arg)
{
	struct glti_func func;
	size_t i;

	for (i = 0; i < n; i++)
		if (stacks[i].depth > 0 && stacks[i].depth < 200 && host->func_for_pc(host, stacks[i].pcs[0] - 1, &func) == GLTI_OK && func.name[0] != 0)
			atomic_fetch_add(&profiles, 1);
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	(void)arg;
}

// profile registers a handler for a moment.
static void profile(uint8_t kind)
{
	static const int32_t rates[] = { 1000, 500, 1, 4096, 10, 1 };
	glti_registration registration;
	int32_t status;

	if (host->register_profile(host, kind, rates[kind], profiled, NULL, &registration) != GLTI_OK)
		return; // the program ends, or a removed heap profile is still there
	status = host->snapshot(host);
	if ((status != GLTI_OK || host->unregister(host, registration) != GLTI_OK) && status != GLTI_CLOSED && !atomic_load(&over))
		atomic_fetch_add(&wrong, 1);
}

static void *change(void *unused)
{
	struct timespec nap = { 0, 100000 };
	glti_registration registration;
	uint8_t event;

	for (event = GLTI_EV_PROC_START; !atomic_load(&over); event = event == GLTI_EV_USER_LOG ? GLTI_EV_PROC_START : event + 1) {
		if (host->register_event(host, event, storm, NULL, &registration) == GLTI_OK) {
			nanosleep(&nap, NULL);
			if (event % 8 == 0)
				host->flush(host);
			if (host->unregister(host, registration) != GLTI_OK && !atomic_load(&over))
				atomic_fetch_add(&wrong, 1);
			atomic_fetch_add(&changes, 1);
			profile(event % 6);
		}
	}
	return unused;
}

int32_t InitGltiAgent(const struct glti_env *env)
{
	glti_registration registration;
	pthread_t thread;
	uint8_t event;

	host = env;
	for (event = 0; event < 6; event++)
		env->register_profile(env, event, 100, profiled, NULL, &registration);
	env->profile_interval(env, 5000000);
	for (event = GLTI_EV_PROC_START; event <= GLTI_EV_USER_LOG; event++)
		if (event % 3 != 0)
			env->register_event(env, event, storm, NULL, &registration);
	return pthread_create(&thread, NULL, change, NULL) == 0 ? GLTI_OK : GLTI_UNAVAILABLE;
}

void ShutdownGltiAgent(int32_t code)
{
	int32_t status = host->flush(host);

	atomic_store(&over, 1);
	fprintf(stderr, "storm: shutdown %" PRId32 ", flush %" PRId32 ", wrong %" PRIuFAST64 ", %s, %s\n", code, status, atomic_load(&wrong),
		atomic_load(&calls) > 1000 && atomic_load(&changes) > 5 ? "many calls" : "few calls",
		atomic_load(&profiles) > 100 ? "profiles" : "few profiles");
}
