/*
 * An agent that measures how long goroutines wait for each kind of operation, and prints the sums when the program exits.
 *
 *     c++ -std=c++17 -O2 -shared -fPIC -fvisibility=hidden -I ../../include -o blocked.so blocked.cc
 */
#include <cinttypes>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>

#include "glti.h"

namespace {

struct Sum {
	std::uint64_t waits = 0;
	std::int64_t time = 0, longest = 0;
};

struct Kind {
	std::uint8_t event;
	const char *name;
};

constexpr Kind kinds[] = {
	{GLTI_EV_GO_BLOCK_SEND, "sending to a channel"},
	{GLTI_EV_GO_BLOCK_RECV, "receiving from a channel"},
	{GLTI_EV_GO_BLOCK_SELECT, "select"},
	{GLTI_EV_GO_BLOCK_SYNC, "locks and wait groups"},
	{GLTI_EV_GO_BLOCK_COND, "condition variables"},
	{GLTI_EV_GO_BLOCK_NET, "the network"},
	{GLTI_EV_GO_SLEEP, "sleep"},
};

const glti_env *host;
std::mutex lock;
std::map<std::string, Sum> sums;

/* No exception may leave a callback. */
extern "C" void waited(const glti_event *event, void *arg) noexcept
{
	if (event->end <= event->time)
		return;
	std::lock_guard<std::mutex> guard(lock);
	Sum &sum = sums[static_cast<const Kind *>(arg)->name];
	std::int64_t time = event->end - event->time;
	sum.waits++;
	sum.time += time;
	if (time > sum.longest)
		sum.longest = time;
}

} // namespace

std::int32_t InitGltiAgent(const glti_env *env)
{
	if (env->version >> 16 != GLTI_VERSION_MAJOR)
		return GLTI_INVALID;
	host = env;
	for (const Kind &kind : kinds) {
		glti_registration registration;
		std::int32_t status = env->register_event(env, kind.event, waited, const_cast<Kind *>(&kind), &registration);
		if (status != GLTI_OK)
			return status;
	}
	return GLTI_OK;
}

void ShutdownGltiAgent(std::int32_t)
{
	host->flush(host);
	std::lock_guard<std::mutex> guard(lock);
	for (const auto &[name, sum] : sums)
		std::fprintf(stderr, "blocked: %s: %" PRIu64 " waits, %.3f ms, longest %.3f ms\n", name.c_str(), sum.waits, sum.time / 1e6, sum.longest / 1e6);
	if (std::uint64_t lost = host->lost(host); lost > 0)
		std::fprintf(stderr, "blocked: %" PRIu64 " events lost\n", lost);
}
