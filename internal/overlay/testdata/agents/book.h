// What the agent book.c and the programs that are compared with it share.
#include <stdint.h>
#include <stdlib.h>

#include "glti.h"

enum { BOOK_SIZE = 1 << 20 };

// A seen is an event as a callback got it.
struct seen {
	struct glti_event event;
	char text[2][32];
};

// A book is what an agent has seen. The program finds its address in an environment variable.
struct book {
	struct seen *list;
	uint64_t n;
	uint64_t raw[64]; // how often raw callbacks were called for each event
	int32_t (*flush)(void);
	uint64_t (*lost)(void);
	int32_t (*stop)(void); // unregisters the callbacks
	int32_t (*again)(void); // registers for what exists: goroutines in a state, and strings
};
