/* A C program that keeps to the test targets' protocol as far as Start and Stop
 * need it: it says that it is ready and ends with its input. */
#include <stdio.h>
#include <unistd.h>

int main(void) {
	char c;
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (read(0, &c, 1) == 1) {
	}
	return 0;
}
