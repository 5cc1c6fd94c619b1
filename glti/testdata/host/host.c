/* A host of native agents for tests: it loads the agent of its first argument, delivers events to it, and shuts it down. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "glti.h"

static struct {
	glti_event_fn fn;
	void *arg;
} callbacks[256];
static int flushed;

static int32_t capability(const struct glti_env *env, const char *method, struct glti_capability *result)
{
	(void)env;
	memset(result, 0, sizeof *result);
	result->why = strcmp(method, "RegisterTraceEvGoCreate") == 0 ? "no hooks" : NULL;
	return GLTI_OK;
}

static int32_t register_event(const struct glti_env *env, uint8_t event, glti_event_fn fn, void *arg, glti_registration *result)
{
	if (env->host)
		return GLTI_UNAVAILABLE;
	callbacks[event].fn = fn;
	callbacks[event].arg = arg;
	*result = event;
	return GLTI_OK;
}

static int32_t flush(const struct glti_env *env)
{
	(void)env;
	flushed = 1;
	return GLTI_OK;
}

static void deliver(uint8_t number)
{
	struct glti_event event = { .number = number, .p = -1 };

	callbacks[number].fn(&event, callbacks[number].arg);
}

static void print_layout(void)
{
	printf("layout event %zu %zu %zu %zu %zu %zu %zu\n", offsetof(struct glti_event, number), offsetof(struct glti_event, p),
	       offsetof(struct glti_event, time), offsetof(struct glti_event, g), offsetof(struct glti_event, by),
	       offsetof(struct glti_event, args), offsetof(struct glti_event, end));
	printf("layout env %zu %zu %zu\n", offsetof(struct glti_env, size), offsetof(struct glti_env, version),
	       offsetof(struct glti_env, func_for_pc) + sizeof(((struct glti_env *)0)->func_for_pc));
}

int main(int argc, char **argv)
{
	static struct glti_env env = {
		.size = sizeof env,
		.version = GLTI_VERSION,
		.go_version = "go1.27",
		.capability = capability,
		.register_event = register_event,
		.flush = flush,
	};
	int32_t (*init)(const struct glti_env *);
	void (*shutdown)(int32_t);
	void *agent;
	int32_t status;

	if (argc < 3)
		return 2;
	if (strcmp(argv[2], "old") == 0)
		env.size = offsetof(struct glti_env, flush);
	if (strcmp(argv[2], "other") == 0)
		env.version += 1 << 16;
	if (strcmp(argv[2], "stock") == 0)
		env.host = &env;
	print_layout();
	agent = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!agent) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	*(void **)&init = dlsym(agent, "InitGltiAgent");
	*(void **)&shutdown = dlsym(agent, "ShutdownGltiAgent");
	status = init(&env);
	printf("status %" PRId32 "\n", status);
	if (status != GLTI_OK)
		return 0;
	deliver(GLTI_EV_GO_CREATE);
	deliver(GLTI_EV_GO_CREATE);
	deliver(GLTI_EV_GO_END);
	shutdown(3);
	printf("flushed %d\n", flushed);
	return 0;
}
