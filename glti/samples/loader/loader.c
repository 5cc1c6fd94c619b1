/*
 * A sample loader for static Go programs: it prints which program it starts, and starts it.
 *
 *     cc -O2 -o loader loader.c
 *     GO_GLTI_LOADER=./loader ./server
 *
 * A static program that `loupe go build` built executes the loader of GO_GLTI_LOADER instead of itself. The loader has the arguments
 * and the environment of the program; GO_GLTI_EXE is the executable, and GO_GLTI_PID the process ID. The program starts without the
 * loader if GO_GLTI_PID is its process ID. So a loader that executes the program must do so in its own process, or unset GO_GLTI_LOADER.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern char **environ;

int
main(int argc, char **argv)
{
	const char *exe = getenv("GO_GLTI_EXE");

	if (argc < 1 || exe == NULL) {
		fprintf(stderr, "loader: not started by a Go program\n");
		return 1;
	}
	fprintf(stderr, "loader: %s with %d arguments\n", exe, argc - 1);
	execve(exe, argv, environ);
	perror(exe);
	return 127;
}
