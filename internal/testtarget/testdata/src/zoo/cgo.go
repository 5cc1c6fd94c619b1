//go:build cgo && zoocgo
// +build cgo,zoocgo

package main

/*
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

extern void zooCallback(uintptr_t n);
extern void zooThreadCallback(uintptr_t n);

static void zooRead(int fd) {
	char c;
	while (read(fd, &c, 1) < 0) {
	}
}

static void zooCallGo(uintptr_t n) {
	zooCallback(n);
}

static void *zooThread(void *arg) {
	zooThreadCallback((uintptr_t)arg);
	return 0;
}

static int zooStartThread(uintptr_t n) {
	pthread_t t;
	return pthread_create(&t, 0, zooThread, (void *)n);
}
*/
import "C"

import (
	"fmt"
	"net"
	"os/user"
	"syscall"
)

func init() { exhibit(showCgo) }

func showCgo() {
	var fd [2]int
	check(syscall.Pipe(fd[:]))
	go cgoRead(fd[0])
	go cgoCallback()
	go cgoCallbackTwice()
	if status := C.zooStartThread(9); status != 0 {
		check(fmt.Errorf("pthread_create: status %d", status))
	}
	// The C halves of these packages are part of most cgo programs. Their
	// results depend on the machine and do not matter.
	user.Current()
	net.LookupHost("localhost")
}

// cgoRead rests inside C.
func cgoRead(fd int) { C.zooRead(C.int(fd)) }

// cgoCallback rests in Go that was called by C that was called by Go.
func cgoCallback() { C.zooCallGo(1) }

// cgoCallbackTwice goes the same way twice.
func cgoCallbackTwice() { C.zooCallGo(2) }
