/* A program of C whose work is done by a shared library written in Go: it loads LIBRARY and calls its function MAIN. */
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
	void *library = dlopen(LIBRARY, RTLD_NOW);
	void (*run)(void) = library ? (void (*)(void))dlsym(library, MAIN) : NULL;

	if (!run) {
		fprintf(stderr, "host: %s\n", dlerror());
		return 1;
	}
	run();
	return 0;
}
