/*
 * A program of C whose work is done by Go: by a shared library LIBRARY, which it loads to call the function named MAIN, or
 * by an archive that it is linked with, whose function is LINKED.
 */
#ifdef LINKED

void LINKED(void);

int main(void)
{
	LINKED();
	return 0;
}

#else

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

#endif
