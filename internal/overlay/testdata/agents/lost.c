// An agent for tests whose callback waits until events are lost. A raw callback counts all events, so those delivered and those lost add up to them.
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "glti.h"

enum { THREADS = 64 }; // at most, in the middle of reporting an event

static const struct glti_env *host;
static atomic_uint_fast64_t all, delivered;
static atomic_int over;

static void count(const struct glti_event *event, void *arg)
{
	(void)event;
	atomic_fetch_add((atomic_uint_fast64_t *)arg, 1);
}

static void count_late(const struct glti_event *event, void *arg)
{
	struct timespec nap = { 0, 100000 };

	count(event, arg);
	while (host->lost(host) == 0 && !atomic_load(&over))
		nanosleep(&nap, NULL);
}

int32_t InitGltiAgent(const struct glti_env *env)
{
	glti_registration registration;

	host = env;
	if (env->register_event(env, GLTI_EV_GO_START, count_late, &delivered, &registration) != GLTI_OK)
		return GLTI_UNAVAILABLE;
	return env->register_raw(env, GLTI_EV_GO_START, count, &all, &registration);
}

void ShutdownGltiAgent(int32_t code)
{
	uint64_t before = atomic_load(&all), sum;

	(void)code;
	atomic_store(&over, 1);
	host->flush(host);
	sum = atomic_load(&delivered) + host->lost(host);
	if (sum + THREADS >= before && sum <= atomic_load(&all) + THREADS)
		fprintf(stderr, "lost: right, %s\n", host->lost(host) > 0 ? "some" : "none");
	else
		fprintf(stderr, "lost: wrong, %" PRIu64 " of %" PRIu64 ", lost %" PRIu64 "\n", sum, before, host->lost(host));
}
