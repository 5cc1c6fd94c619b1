// What the agent profiles.c and the program that compares profiles share.
#include <stdint.h>
#include <stdlib.h>

#include "glti.h"

// A record is a stack of a snapshot.
struct record {
	uint64_t pcs[128];
	size_t depth;
	int64_t values[4];
	struct glti_g g;
};

// A taken is the last snapshot of a profile, and for CPU and thread profiles all of them.
struct taken {
	struct record *list;
	size_t n, calls;
	int32_t inside; // what snapshot returned in the handler
};

// A profiles is what an agent has. The program finds its address in an environment variable.
struct profiles {
	struct taken of[6];
	int32_t (*snapshot)(void);
	int32_t (*remove)(uint8_t profile); // unregisters the handler
	int32_t (*again)(uint8_t profile, int32_t rate);
	uint64_t (*lost)(void);
};
