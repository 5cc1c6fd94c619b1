package main

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// allocateSize is the size of the objects that /allocate/ makes, which is that of a size class. They have no pointers.
const allocateSize = 1024

// allocateIn is the number of goroutines that do it.
const allocateIn = 4

// allocate allocates N objects: in the goroutine of the request (own), in some that end (started), in some that wait when the request
// ends (waiting), or before the handler panics (panic). It answers with the bytes and objects by which runtime.MemStats have grown
// meanwhile, with leading zeros, so that all answers have the same length.
func (w *web) allocate(rw http.ResponseWriter, r *http.Request) {
	words := strings.Split(r.URL.Path, "/")
	how := words[2]
	n, _ := strconv.Atoi(words[3])
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	switch how {
	case "own", "panic":
		makeObjects(n)
	case "started":
		var all sync.WaitGroup
		for i := 0; i < allocateIn; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				makeObjects(n / allocateIn)
				time.Sleep(time.Millisecond) // what it has allocated is known, even if it ends late
			}()
		}
		all.Wait()
	case "waiting":
		defer w.keep(n / allocateIn)()
	}
	runtime.ReadMemStats(&after)
	if how == "panic" {
		panic(http.ErrAbortHandler)
	}
	fmt.Fprintf(rw, "%012d %012d", after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs)
}

// kept are goroutines that wait although their request has ended.
var kept struct {
	sync.Mutex
	count int
	text  [1 << 20]byte
}

// keep has goroutines allocate n objects each, and waits until they wait. The result has them end after a pause.
func (w *web) keep(n int) (release func()) {
	kept.Lock()
	kept.count += allocateIn
	kept.Unlock()
	released := make(chan bool)
	var all sync.WaitGroup
	all.Add(allocateIn)
	for i := 0; i < allocateIn; i++ {
		go func() {
			defer all.Done()
			awaitRelease(n, released)
		}()
	}
	for !allWait() {
		time.Sleep(time.Millisecond)
	}
	return func() {
		time.AfterFunc(pause, func() {
			close(released)
			all.Wait()
			kept.Lock()
			kept.count -= allocateIn
			kept.Unlock()
		})
	}
}

//go:noinline
func awaitRelease(n int, released chan bool) {
	makeObjects(n)
	<-released
}

// allWait reports whether all goroutines that were kept wait in awaitRelease.
func allWait() bool {
	kept.Lock()
	defer kept.Unlock()
	return bytes.Count(kept.text[:runtime.Stack(kept.text[:], true)], []byte("[chan receive]:\nmain.awaitRelease(")) >= kept.count
}

//go:noinline
func makeObjects(n int) {
	var last []byte
	for i := 0; i < n; i++ {
		last = newObject()
	}
	runtime.KeepAlive(last)
}

//go:noinline
func newObject() []byte { return make([]byte, allocateSize) }

// grown is the memory that /grow/ has allocated, in blocks that are smaller than the buffers of /send?as=large.
var grown struct {
	sync.Mutex
	blocks [][]byte
}

// grow allocates some MB, and answers with the number of bytes by which the heap has grown.
func grow(rw http.ResponseWriter, r *http.Request) {
	const block = 64 << 10
	n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/grow/"))
	grown.Lock()
	defer grown.Unlock()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for ; n > 0; n-- {
		for i := 0; i < 1<<20/block; i++ {
			grown.blocks = append(grown.blocks, make([]byte, block))
		}
	}
	runtime.ReadMemStats(&after)
	fmt.Fprintln(rw, after.HeapSys-before.HeapSys)
}
