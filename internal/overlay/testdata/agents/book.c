// An agent for tests that registers callbacks for every event, and writes down what they get.
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "book.h"

static const struct glti_env *host;
static struct book book;
static atomic_uint_fast64_t next, panics;
static char panic_text[64];
static glti_registration registrations[64], raw[64];

static void note(const struct glti_event *event, void *arg)
{
	uint64_t at = atomic_fetch_add(&next, 1);
	int i;

	if (at >= BOOK_SIZE || arg != &book) {
		fprintf(stderr, "book: too many events\n");
		_exit(3);
	}
	book.list[at].event = *event;
	for (i = 0; i < 2; i++)
		if (event->text[i] != NULL)
			snprintf(book.list[at].text[i], sizeof book.list[at].text[i], "%s", event->text[i]);
}

// note_raw runs inside the scheduler.
static void note_raw(const struct glti_event *event, void *arg)
{
	uint64_t *count = arg;

	if (event->number == count - book.raw && event->time > 0)
		__atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
}

static void note_panic(const char *value, void *arg)
{
	atomic_fetch_add(&panics, arg == &book);
	snprintf(panic_text, sizeof panic_text, "%s", value);
}

static int32_t flush(void)
{
	int32_t status = host->flush(host);

	book.n = atomic_load(&next);
	return status;
}

static uint64_t lost(void)
{
	return host->lost(host);
}

static int32_t stop(void)
{
	unsigned i;

	for (i = 0; i < 64; i++)
		if ((registrations[i] != 0 && host->unregister(host, registrations[i]) != GLTI_OK) || (raw[i] != 0 && host->unregister(host, raw[i]) != GLTI_OK))
			return GLTI_INVALID;
	return host->unregister(host, registrations[GLTI_EV_GO_END]) == GLTI_INVALID ? GLTI_OK : GLTI_UNAVAILABLE;
}

static int32_t again(void)
{
	static const uint8_t events[] = { GLTI_EV_GO_WAITING, GLTI_EV_GO_IN_SYSCALL, GLTI_EV_STRING };
	glti_registration registration[3];
	unsigned i;

	for (i = 0; i < 3; i++)
		if (host->register_event(host, events[i], note, &book, &registration[i]) != GLTI_OK)
			return GLTI_UNAVAILABLE;
	flush();
	for (i = 0; i < 3; i++)
		if (host->unregister(host, registration[i]) != GLTI_OK)
			return GLTI_INVALID;
	return GLTI_OK;
}

int32_t InitGltiAgent(const struct glti_env *env)
{
	glti_registration registration;
	char text[32];
	unsigned event;
	int32_t status;

	host = env;
	book.list = calloc(BOOK_SIZE, sizeof *book.list);
	book.flush = flush;
	book.lost = lost;
	book.stop = stop;
	book.again = again;
	for (event = 0; event < 64; event++) {
		status = env->register_event(env, event, note, &book, &registrations[event]);
		if (status == GLTI_INVALID && event >= GLTI_EV_PROC_START && event <= GLTI_EV_USER_LOG)
			return GLTI_INVALID;
		if (env->register_raw(env, event, note_raw, &book.raw[event], &raw[event]) == GLTI_INVALID && status != GLTI_INVALID)
			return GLTI_INVALID;
	}
	if (env->register_event(env, GLTI_EV_GO_END, NULL, NULL, &registration) != GLTI_INVALID ||
	    env->register_panic(env, note_panic, &book, &registration) != GLTI_OK || env->unregister(env, registration + 1000) != GLTI_INVALID ||
	    env->flush(env) != GLTI_OK)
		return GLTI_INVALID;
	snprintf(text, sizeof text, "%" PRIuPTR, (uintptr_t)&book);
	return setenv(getenv("BOOK") == NULL ? "BOOK" : "BOOK2", text, 1) == 0 ? GLTI_OK : GLTI_INVALID;
}

void ShutdownGltiAgent(int32_t code)
{
	host->flush(host);
	fprintf(stderr, "book: shutdown %" PRId32 ", panics %" PRIuFAST64 " %s, lost %" PRIu64 "\n", code, atomic_load(&panics), panic_text, host->lost(host));
}
