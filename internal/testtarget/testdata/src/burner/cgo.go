//go:build cgo && zoocgo
// +build cgo,zoocgo

package main

/*
#cgo LDFLAGS: -lpthread
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static unsigned long burn(unsigned long n) {
	unsigned long x = n | 1;
	for (unsigned long i = 0; i < n * 1000; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	return x;
}

extern void goBack(int);

static void call(int n) {
	goBack(n);
}

// A chain of calls through the C library: sorted -> qsort -> compare -> work. None of them needs a frame pointer.
static volatile unsigned long result;

__attribute__((noinline)) static void work(unsigned long n) {
	result += burn(n);
}

static int compare(const void *a, const void *b) {
	work(1);
	return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) static int sorted(int n) {
	int list[64];
	for (int i = 0; i < 64; i++)
		list[i] = i * 37 % 64;
	qsort(list, 64, sizeof(list[0]), compare);
	return list[n] + result % 2;
}

__attribute__((noinline, noclone)) static int descend(int n) {
	int r = n == 0 ? sorted(3) : descend(n - 1);
	__asm__ volatile("" ::: "memory"); // else gcc makes a loop of it
	return r + 1;
}

// A chain that asks the kernel for the time, which the vDSO answers.
__attribute__((noinline)) static long ask(int n) {
	struct timespec t;
	for (int i = 0; i < n; i++)
		clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_nsec;
}

static void work_for_long(void) {
	work(50);
}

// A chain through code that is in no file, as just-in-time compilers make it. It keeps a frame pointer.
__attribute__((noinline)) static int jit(void) {
#ifdef __x86_64__
	static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3}; // push rbp; mov rbp, rsp; call rdi; pop rbp; ret
	static void (*made)(void (*)(void));
	if (made == NULL) {
		void *memory = mmap(NULL, sizeof(code), PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		memcpy(memory, code, sizeof(code));
		made = memory;
	}
	made(work_for_long);
#else
	work_for_long();
#endif
	return result % 2;
}

// A thread that Go does not know.
static void *alone(void *unused) {
	for (;;)
		work(50);
	return unused;
}

static int start_alone(void) {
	pthread_t t;
	return pthread_create(&t, NULL, alone, NULL);
}
*/
import "C"

func init() {
	loads["cgo"], loads["native"], loads["vdso"], loads["jit"], loads["cthread"] = inC, inNative, inVDSO, inJIT, inThread
}

// inC uses its time in C, and in Go code that C calls.
func inC() {
	for {
		C.burn(50)
		C.call(50)
	}
}

// inNative uses its time in chains of C functions of different depths.
func inNative() {
	for {
		C.descend(3)
		C.descend(8)
	}
}

// inVDSO uses its time in the vDSO.
func inVDSO() {
	for {
		C.ask(1000)
	}
}

// inJIT uses its time in C code that code without a file calls.
func inJIT() {
	for {
		C.jit()
	}
}

// inThread uses its time in a thread that C creates.
func inThread() {
	if C.start_alone() != 0 {
		panic("no thread")
	}
}
