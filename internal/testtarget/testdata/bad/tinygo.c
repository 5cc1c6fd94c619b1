/* A mock of a TinyGo program, for machines without that compiler. What it has in
 * common with the real thing (looked up in one made by TinyGo 0.37 for
 * linux/amd64): Go names for its symbols, among them TinyGo's runtime and
 * scheduler, a .comment section that names the compiler, static linking. And what
 * it lacks as that does: pclntab, build information, and the runtime's own data. */
#include <stdio.h>
#include <unistd.h>

__asm__(".ident \"TinyGo version 0.37.0\"");

/* The assembler takes a slash in a name when the name is in quotes. */
#define DATA(name) __asm__("\"" name "\"") __attribute__((used))
#define CODE(name) DATA(name) __attribute__((noinline))

void *currentTask DATA("internal/task.currentTask");
unsigned long heapStart DATA("runtime.heapStart");
unsigned long heapEnd DATA("runtime.heapEnd");
void *runqueueHead DATA("runtime.runqueue.0");
void *runqueueTail DATA("runtime.runqueue.1");
void *sleepQueue DATA("runtime.sleepQueue");

void runMain(void) CODE("runtime.runMain");
void worker(void) CODE("main.worker$gowrapper");
void start(void) CODE("internal/task.start");
void pauseTask(void) CODE("internal/task.Pause");
void *alloc(unsigned long size) CODE("runtime.alloc");

void *alloc(unsigned long size) {
	return (void *)(heapEnd += size);
}

void pauseTask(void) {
	char c;
	while (read(0, &c, 1) == 1) {
	}
}

void worker(void) {
	currentTask = alloc(64);
	pauseTask();
}

void start(void) {
	worker();
}

void runMain(void) {
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	start();
}

int main(void) {
	runMain();
	return 0;
}
