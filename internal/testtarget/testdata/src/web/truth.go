package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/trace"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// A truth serves the paths /truth/KIND/N, each in a region "request N" of the program's execution trace.
type truth struct {
	w    *web
	mu   sync.Mutex
	work chan chan bool
	file *os.File // the trace, while it is recorded
}

func newTruth(w *web) *truth {
	t := &truth{w: w, work: make(chan chan bool)}
	go func() {
		for done := range t.work {
			spin(100 * time.Microsecond)
			done <- true
		}
	}()
	return t
}

func (t *truth) serve(rw http.ResponseWriter, r *http.Request) {
	words := strings.Split(r.URL.Path, "/")
	region := trace.StartRegion(context.Background(), "request "+words[3])
	defer region.End()
	t.do(words[2])
}

func (t *truth) do(kind string) {
	switch kind {
	case "cpu":
		spin(2 * time.Millisecond)
	case "sleep":
		time.Sleep(2 * time.Millisecond)
	case "chan":
		done := make(chan bool)
		for i := 0; i < 3; i++ {
			t.work <- done
			<-done
		}
	case "select":
		done, never := make(chan bool), make(chan bool)
		time.AfterFunc(time.Millisecond, func() { close(done) })
		select {
		case <-done:
		case <-never:
		}
	case "lock":
		for i := 0; i < 3; i++ {
			t.mu.Lock()
			spin(100 * time.Microsecond)
			time.Sleep(100 * time.Microsecond)
			t.mu.Unlock()
		}
	case "network":
		get(discard{}, t.w.plain.Client(), t.w.plain.URL+"/hello")
		readSlowly(time.Millisecond)
	case "write":
		t.write()
	case "gc":
		allocate()
	case "start":
		t.start()
	case "mix":
		for _, kind := range []string{"cpu", "chan", "lock", "write", "gc", "start", "sleep"} {
			t.do(kind)
		}
	}
}

// write makes system calls: short ones, and one that blocks until another goroutine has slept.
func (t *truth) write() {
	f, err := os.CreateTemp("", "web")
	check(err)
	os.Remove(f.Name())
	for i := 0; i < 20; i++ {
		f.Write([]byte("some text\n"))
	}
	f.Close()
	var pipe [2]int
	check(syscall.Pipe(pipe[:]))
	time.AfterFunc(time.Millisecond, func() { syscall.Close(pipe[1]) })
	syscall.Read(pipe[0], make([]byte, 1))
	syscall.Close(pipe[0])
}

// start starts goroutines that start others, and waits for half of them.
func (t *truth) start() {
	var all sync.WaitGroup
	for i := 0; i < 20; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			spin(20 * time.Microsecond)
			go func() {
				runtime.Gosched()
				time.Sleep(3 * time.Millisecond)
			}()
		}()
	}
	all.Wait()
}

var sink [][]byte
var sinkMu sync.Mutex

// allocate allocates memory with pointers, some of which stays in use for a while.
func allocate() {
	var kept [][]byte
	for i := 0; i < 200; i++ {
		kept = append(kept, make([]byte, 4<<10))
	}
	sinkMu.Lock()
	sink = kept
	sinkMu.Unlock()
}

func spin(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
	}
}

// discard is a response that nobody reads.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return io.Discard.Write(b) }
func (discard) WriteHeader(int)             {}

// begin is the command `trace FILE`.
func (t *truth) begin(args []string) string {
	file, err := os.Create(args[0])
	if err == nil {
		err = trace.Start(file)
	}
	if err != nil {
		return "error " + err.Error()
	}
	t.file = file
	mark("loupe.begin")
	return "tracing"
}

// stop is the command `stop`.
func (t *truth) stop([]string) string {
	mark("loupe.end")
	trace.Stop()
	if err := t.file.Close(); err != nil {
		return "error " + err.Error()
	}
	return "traced"
}

// mark writes CLOCK_MONOTONIC into the trace, as program selftrace does.
func mark(category string) {
	for i := 0; i < 16; i++ {
		var ts syscall.Timespec
		if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
			check(errno)
		}
		trace.Log(context.Background(), category, strconv.FormatInt(ts.Nano(), 10))
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}
