// Command host ends in the way that its argument names.
package main

/*
#include <pthread.h>
#include <stdlib.h>

static volatile int zero;
static void crash(void) { *(volatile int *)(long)zero = 1; }
static void *crash_there(void *unused) { crash(); return NULL; }
static void crash_elsewhere(void) { pthread_t t; pthread_create(&t, NULL, crash_there, NULL); pthread_join(t, NULL); }
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

func main() {
	fmt.Fprintln(os.Stderr, "main")
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case "exit":
		code, _ := strconv.Atoi(os.Args[2])
		os.Exit(code)
	case "exit elsewhere":
		go os.Exit(5)
		select {}
	case "exit twice":
		for i := 0; i < 4; i++ {
			go os.Exit(6)
		}
		os.Exit(6)
	case "syscall.Exit":
		syscall.Exit(4)
	case "panic":
		defer fmt.Fprintln(os.Stderr, "deferred")
		panic(errors.New("panic"))
	case "panic elsewhere":
		go func() { panic("panic elsewhere") }()
		select {}
	case "panic twice":
		defer func() { panic("panic twice") }()
		panic("panic once")
	case "nil":
		var p *int
		*p = 1
	case "Goexit":
		runtime.Goexit()
	case "deadlock":
		select {}
	case "fatal":
		var mu sync.Mutex
		mu.Unlock()
	case "overflow":
		overflow(0)
	case "signal":
		n, _ := strconv.Atoi(os.Args[2])
		kill(syscall.Signal(n))
	case "caught signal":
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		syscall.Kill(os.Getpid(), syscall.SIGTERM)
		<-c
		os.Exit(7)
	case "closed pipe":
		r, w, _ := os.Pipe()
		r.Close()
		syscall.Dup2(int(w.Fd()), 1)
		os.Stdout.Write([]byte("x"))
	case "C crash":
		C.crash()
	case "C crash elsewhere":
		C.crash_elsewhere()
	case "C abort":
		C.abort()
	default:
		panic("unknown way " + os.Args[1])
	}
}

func kill(s syscall.Signal) {
	syscall.Kill(os.Getpid(), s)
	time.Sleep(time.Hour)
}

func overflow(n int) int {
	var frame [1024]int
	frame[n%1024] = n
	return overflow(n+1) + frame[0]
}
