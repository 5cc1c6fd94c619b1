/*
 * An agent that counts the goroutines of a program, and prints the counts when it exits.
 *
 *     cc -std=c11 -O2 -shared -fPIC -fvisibility=hidden -I ../../include -o counter.so counter.c
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "glti.h"

static const struct glti_env *host;
static atomic_uint_fast64_t created, ended;

static void count(const struct glti_event *event, void *arg)
{
	(void)event;
	atomic_fetch_add((atomic_uint_fast64_t *)arg, 1);
}

static int32_t count_event(uint8_t number, const char *method, atomic_uint_fast64_t *counter)
{
	glti_registration registration;
	struct glti_capability capability;
	int32_t status = host->register_event(host, number, count, counter, &registration);

	if (status == GLTI_OK)
		return GLTI_OK;
	if (host->capability(host, method, &capability) == GLTI_OK && capability.why)
		fprintf(stderr, "counter: %s: %s\n", method, capability.why);
	else
		fprintf(stderr, "counter: %s: status %" PRId32 "\n", method, status);
	return status;
}

int32_t InitGltiAgent(const struct glti_env *env)
{
	int32_t status;

	if (env->version >> 16 != GLTI_VERSION_MAJOR) {
		fprintf(stderr, "counter: requires version %d of the interface\n", GLTI_VERSION_MAJOR);
		return GLTI_INVALID;
	}
	if (!GLTI_HAS(env, flush)) {
		fprintf(stderr, "counter: the host lacks functions\n");
		return GLTI_UNAVAILABLE;
	}
	host = env;
	status = count_event(GLTI_EV_GO_CREATE, "RegisterTraceEvGoCreate", &created);
	if (status == GLTI_OK)
		status = count_event(GLTI_EV_GO_END, "RegisterTraceEvGoEnd", &ended);
	return status;
}

void ShutdownGltiAgent(int32_t exit_code)
{
	host->flush(host);
	fprintf(stderr, "counter: exit code %" PRId32 ", goroutines created %" PRIuFAST64 ", ended %" PRIuFAST64 "\n",
		exit_code, atomic_load(&created), atomic_load(&ended));
}
