//go:build cgo && zoocgo
// +build cgo,zoocgo

package main

/*
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

extern uint64_t mixerCallback(uint64_t n);

static uint64_t mixerSteps(uint64_t x, uint64_t n) {
	while (n--) {
		x = x * 31 + n;
	}
	return x;
}

// mixerCallGo adds up what Go says for the numbers to n.
static uint64_t mixerCallGo(uint64_t n) {
	uint64_t sum = 0;
	while (n) {
		sum += mixerCallback(n--);
	}
	return sum;
}

static void *mixerThread(void *arg) {
	return (void *)(uintptr_t)mixerCallGo((uintptr_t)arg);
}

// mixerThreadCallsGo does the same in a thread of its own; 0 if there is none.
static uint64_t mixerThreadCallsGo(uint64_t n) {
	pthread_t t;
	void *result;
	if (pthread_create(&t, 0, mixerThread, (void *)(uintptr_t)n) || pthread_join(t, &result)) {
		return 0;
	}
	return (uintptr_t)result;
}

// mixerFork has a child process calculate, without another program. It returns the child's exit status, or less than 0.
static int mixerFork(uint64_t n) {
	int status;
	pid_t child = fork();
	if (child < 0) {
		return -errno;
	}
	if (child == 0) {
		uint64_t x = mixerSteps(n, 100000);
		usleep(500);
		_exit(x & 0x7f);
	}
	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR) {
			return -errno;
		}
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1000 - status;
}
*/
import "C"

import (
	"runtime"
	"time"
)

func init() {
	kinds = append(kinds, &kind{name: "calls", work: calls}, &kind{name: "callbacks", work: callbacks},
		&kind{name: "foreign", work: foreignThreads}, &kind{name: "forks", work: forks, lone: true})
}

// steps is what mixerSteps does.
func steps(x, n uint64) uint64 {
	for n > 0 {
		n--
		x = x*31 + n
	}
	return x
}

func calls() {
	n := uint64(time.Now().Nanosecond())
	for i := uint64(0); i < 100; i++ {
		if got, want := uint64(C.mixerSteps(C.uint64_t(n), C.uint64_t(i))), steps(n, i); got != want {
			fail("calls: %d, want %d", got, want)
		}
	}
}

// answer is what Go says to C; it moves to another thread meanwhile, if it may.
func answer(n uint64) uint64 {
	runtime.Gosched()
	c := make(chan uint64)
	go func() { c <- n * n }()
	return <-c
}

const squares = 20

func squareSum() uint64 { return squares * (squares + 1) * (2*squares + 1) / 6 }

func callbacks() {
	if got := uint64(C.mixerCallGo(squares)); got != squareSum() {
		fail("callbacks: %d, want %d", got, squareSum())
	}
}

func foreignThreads() {
	if got := uint64(C.mixerThreadCallsGo(squares)); got != squareSum() {
		fail("foreign: %d, want %d", got, squareSum())
	}
}

func forks() {
	n := uint64(time.Now().Nanosecond())
	if got, want := int(C.mixerFork(C.uint64_t(n))), int(steps(n, 100000)&0x7f); got != want {
		fail("forks: status %d, want %d", got, want)
	}
	time.Sleep(wait)
}
