// An agent for tests of the table of functions. The program receives the address of its function in an environment variable.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "glti.h"

// A probed is what the program asks, and the answer.
struct probed {
	const char *name;
	uint64_t pc;
	void *set;
	struct glti_g of;
	const char *go_version;
	uint64_t symbol;
	struct glti_func func;
	struct glti_g g;
	void *local;
	int32_t func_status, local_status, set_status, elsewhere;
	int64_t now;
};

static const struct glti_env *glti;

static void *
other_thread(void *unused)
{
	struct glti_g g = { 1, 1 };

	(void)unused;
	return glti->current(glti, &g) == GLTI_OK && g.addr == 0 && g.id == 0 ? NULL : &glti;
}

static void
probe(struct probed *p)
{
	pthread_t thread;
	void *wrong = NULL;

	p->go_version = glti->go_version;
	p->symbol = glti->resolve_symbol(glti, p->name);
	p->func_status = glti->func_for_pc(glti, p->pc, &p->func);
	if (glti->current(glti, &p->g) != GLTI_OK)
		p->g.addr = 0;
	if (p->of.addr == 0)
		p->of = p->g;
	p->local_status = glti->get_local(glti, &p->of, &p->local);
	p->set_status = p->set == NULL ? GLTI_OK : glti->set_local(glti, &p->of, p->set);
	p->now = glti->now(glti);
	p->elsewhere = pthread_create(&thread, NULL, other_thread, NULL) != 0 || pthread_join(thread, &wrong) != 0 || wrong != NULL;
}

static void
event(const struct glti_event *event, void *arg)
{
	(void)event;
	(void)arg;
	abort();
}

int32_t
InitGltiAgent(const struct glti_env *env)
{
	char text[32];
	glti_registration registration;
	struct glti_capability capability;

	glti = env;
	snprintf(text, sizeof text, "%llu", (unsigned long long)(uintptr_t)probe);
	setenv(getenv("PROBE") == NULL ? "PROBE" : "PROBE2", text, 1);
	if (env->capability(env, "GetG", &capability) != GLTI_OK || !capability.available || capability.why != NULL)
		return GLTI_INVALID;
	if (env->capability(env, "ReflectCall", &capability) != GLTI_OK || capability.available || capability.why == NULL)
		return GLTI_INVALID;
	return env->register_raw(env, GLTI_EV_GO_WAITING, event, NULL, &registration) == GLTI_UNAVAILABLE ? GLTI_OK : GLTI_INVALID;
}
