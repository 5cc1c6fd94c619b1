// An agent for tests that registers handlers for all profiles, and keeps what they get.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "profiles.h"

static const struct glti_env *host;
static struct profiles profiles;
static glti_registration registrations[6];

static void take(const struct glti_stack *stacks, size_t n, void *arg)
{
	struct taken *t = arg;
	int adds = t == &profiles.of[GLTI_PROFILE_CPU] || t == &profiles.of[GLTI_PROFILE_THREAD_CREATION];
	size_t i, at = adds ? t->n : 0;

	t->calls++;
	t->inside = host->snapshot(host);
	t->list = realloc(t->list, (at + n + 1) * sizeof *t->list);
	for (i = 0; i < n; i++, at++) {
		memset(&t->list[at], 0, sizeof t->list[at]);
		memcpy(t->list[at].pcs, stacks[i].pcs, stacks[i].depth * sizeof stacks[i].pcs[0]);
		t->list[at].depth = stacks[i].depth;
		memcpy(t->list[at].values, stacks[i].values, sizeof stacks[i].values);
		t->list[at].g = stacks[i].g;
	}
	t->n = at;
}

static int32_t snapshot(void)
{
	return host->snapshot(host);
}

static int32_t again(uint8_t profile, int32_t rate)
{
	profiles.of[profile].n = 0;
	return host->register_profile(host, profile, rate, take, &profiles.of[profile], &registrations[profile]);
}

static int32_t remove_handler(uint8_t profile)
{
	return host->unregister(host, registrations[profile]);
}

static uint64_t lost(void)
{
	return host->lost(host);
}

int32_t InitGltiAgent(const struct glti_env *env)
{
	static const int32_t rates[] = { 1, RATE, 1, 1, 1, 1 };
	glti_registration unused;
	char text[32];
	uint8_t i;

	host = env;
	if (!GLTI_HAS(env, snapshot) || env->profile_interval(env, -1) != GLTI_INVALID || env->profile_interval(env, INT64_C(3600000000000)) != GLTI_OK ||
	    env->register_profile(env, 6, 1, take, NULL, &unused) != GLTI_INVALID || env->register_profile(env, 0, 0, take, NULL, &unused) != GLTI_INVALID ||
	    env->register_profile(env, 0, 1, NULL, NULL, &unused) != GLTI_INVALID)
		return GLTI_INVALID;
	for (i = 0; i < 6; i++)
		if (again(i, rates[i]) != GLTI_OK)
			return GLTI_UNAVAILABLE;
	if (env->snapshot(env) != GLTI_OK)
		return GLTI_INVALID;
	profiles.snapshot = snapshot;
	profiles.remove = remove_handler;
	profiles.again = again;
	profiles.lost = lost;
	snprintf(text, sizeof text, "%" PRIuPTR, (uintptr_t)&profiles);
	return setenv(getenv("PROFILES") == NULL ? "PROFILES" : "PROFILES2", text, 1) == 0 ? GLTI_OK : GLTI_INVALID;
}

void ShutdownGltiAgent(int32_t code)
{
	glti_registration unused;
	uint8_t i;
	size_t calls = 0;

	for (i = 0; i < 6; i++)
		calls += profiles.of[i].calls;
	fprintf(stderr, "profiles: shutdown %" PRId32 ", %s, snapshot %" PRId32 ", register %" PRId32 "\n", code, calls > 0 ? "called" : "never called", host->snapshot(host),
	    host->register_profile(host, GLTI_PROFILE_CPU, 1, take, &profiles.of[GLTI_PROFILE_CPU], &unused));
}
