package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
	"unsafe"
)

const wait = 3 * time.Millisecond

// waited checks a wait that must have ended by its time-out, or by a signal of the runtime's own.
func waited(what string, begin time.Time, err, want error) {
	switch {
	case err == syscall.EINTR:
	case err != want:
		fail("%s: %v", what, err)
	case time.Since(begin) < wait:
		fail("%s: ended after %v", what, time.Since(begin))
	}
}

func sleeps() {
	begin := time.Now()
	ts := syscall.NsecToTimespec(int64(wait))
	waited("sleeps", begin, syscall.Nanosleep(&ts, nil), nil)
}

func futexes() {
	var word uint32
	begin := time.Now()
	ts := syscall.NsecToTimespec(int64(wait))
	const waitPrivate = 128
	_, _, errno := syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&word)), waitPrivate, 0,
		uintptr(unsafe.Pointer(&ts)), 0, 0)
	waited("futexes", begin, errno, syscall.ETIMEDOUT)
}

// reads has a thread wait in read for what another one writes.
func reads() {
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		fail("reads: %v", err)
		return
	}
	written := make(chan bool)
	go func() {
		time.Sleep(wait)
		syscall.Write(p[1], []byte("word"))
		syscall.Close(p[1])
		close(written)
	}()
	var b [8]byte
	n, err := syscall.Read(p[0], b[:])
	<-written
	syscall.Close(p[0])
	if err != syscall.EINTR && (err != nil || string(b[:n]) != "word") {
		fail("reads: %q, %v", b[:n], err)
	}
}

// deadlines waits in the runtime's network poller.
func deadlines() {
	r, w, err := os.Pipe()
	if err != nil {
		fail("deadlines: %v", err)
		return
	}
	defer r.Close()
	defer w.Close()
	begin := time.Now()
	r.SetReadDeadline(begin.Add(wait))
	var b [1]byte
	if _, err := r.Read(b[:]); !os.IsTimeout(err) || time.Since(begin) < wait {
		fail("deadlines: %v after %v", err, time.Since(begin))
	}
}

// newSignals returns work that sends signals to this process, each of which must come.
func newSignals() func() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1)
	return func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
			fail("signals: %v", err)
			return
		}
		<-c
		time.Sleep(wait / 10)
	}
}
