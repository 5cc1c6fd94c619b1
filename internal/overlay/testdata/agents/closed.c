// An agent for tests whose functions return GLTI_CLOSED at some time: REFUSES after InitGltiAgent failed, REGISTERS after ShutdownGltiAgent.
// An agent with WAITS waits for the result.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "glti.h"

static const struct glti_env *host;

static void pause_a_bit(void)
{
	struct timespec nap = { 0, 1000000 };

	nanosleep(&nap, NULL);
}

#ifndef WAITS
static int closed;

static void event(const struct glti_event *event, void *arg)
{
	(void)event;
	(void)arg;
	if (__atomic_load_n(&closed, __ATOMIC_ACQUIRE))
		setenv("CLOSED", "called", 1);
}

static void panicked(const char *value, void *arg)
{
	(void)value;
	event(NULL, arg);
}

static void profiled(const struct glti_stack *stacks, size_t n, void *arg)
{
	(void)stacks;
	(void)n;
	event(NULL, arg);
}

static void *wait(void *unused)
{
	glti_registration registration = 0;
	struct glti_g g = { (uintptr_t)&g, 1 };
	void *local;
	int i;

	while (host->register_event(host, GLTI_EV_GO_START, event, NULL, &registration) == GLTI_OK) {
		host->unregister(host, registration);
		pause_a_bit();
	}
	pause_a_bit(); // calls that had begun
	__atomic_store_n(&closed, 1, __ATOMIC_RELEASE);
	for (i = 0; i < 10; i++)
		pause_a_bit();
	if (getenv("CLOSED") != NULL)
		return unused;
	setenv("CLOSED", host->register_raw(host, GLTI_EV_GO_START, event, NULL, &registration) == GLTI_CLOSED &&
	       host->register_panic(host, panicked, NULL, &registration) == GLTI_CLOSED &&
	       host->register_profile(host, GLTI_PROFILE_CPU, 100, profiled, NULL, &registration) == GLTI_CLOSED &&
	       host->profile_interval(host, 0) == GLTI_CLOSED && host->snapshot(host) == GLTI_CLOSED &&
	       host->unregister(host, 1) == GLTI_CLOSED && host->flush(host) == GLTI_CLOSED && host->get_local(host, &g, &local) == GLTI_CLOSED &&
	       host->set_local(host, &g, NULL) == GLTI_CLOSED ? "ok" : "wrong", 1);
	return unused;
}
#endif

int32_t InitGltiAgent(const struct glti_env *env)
{
	host = env;
#ifndef WAITS
	glti_registration registration;
	pthread_t thread;

	if (env->register_event(env, GLTI_EV_GO_CREATE, event, NULL, &registration) != GLTI_OK ||
	    env->register_event(env, GLTI_EV_GO_START, event, NULL, &registration) != GLTI_OK ||
	    env->register_raw(env, GLTI_EV_GO_START, event, NULL, &registration) != GLTI_OK ||
	    env->register_panic(env, panicked, NULL, &registration) != GLTI_OK || env->profile_interval(env, 1) != GLTI_OK ||
	    env->register_profile(env, GLTI_PROFILE_GOROUTINE, 1, profiled, NULL, &registration) != GLTI_OK || pthread_create(&thread, NULL, wait, NULL) != 0)
		return GLTI_INVALID;
#endif
#ifdef REFUSES
	return GLTI_UNAVAILABLE;
#else
	return GLTI_OK;
#endif
}

void ShutdownGltiAgent(int32_t code)
{
#ifdef WAITS
	int i;

	for (i = 0; i < 4000 && getenv("CLOSED") == NULL; i++)
		pause_a_bit();
	fprintf(stderr, "closed: %s\n", getenv("CLOSED") != NULL ? getenv("CLOSED") : "no");
#endif
	(void)code;
}
