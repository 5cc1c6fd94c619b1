// Command profiles compares the profiles that native agents get with what it does, and with the runtime's own profiles of the same time.
package main

/*
#cgo CFLAGS: -I${SRCDIR}/.. -I${SRCDIR}/../../../../../glti/include
#include "profiles.h"

static struct profiles *open_profiles(const char *variable) { return getenv(variable) == NULL ? NULL : (struct profiles *)(uintptr_t)strtoull(getenv(variable), NULL, 10); }
static int32_t take_snapshot(struct profiles *p) { return p->snapshot(); }
static int32_t remove_handler(struct profiles *p, uint8_t profile) { return p->remove(profile); }
static int32_t register_again(struct profiles *p, uint8_t profile, int32_t rate) { return p->again(profile, rate); }
static uint64_t lost(struct profiles *p) { return p->lost(); }
*/
import "C"

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Profiles have the numbers of glti.h.
const (
	block, cpu, goroutine, heap, mutex, threads = 0, 1, 2, 3, 4, 5
)

var agents []*C.struct_profiles

func main() {
	debug.SetGCPercent(-1)
	for _, name := range []string{"PROFILES", "PROFILES2"} {
		if p := C.open_profiles(C.CString(name)); p != nil {
			agents = append(agents, p)
		}
	}
	snapshot()
	checkGoroutines()
	checkHeap()
	checkContention()
	checkCPU()
	checkThreads()
	checkRemoval()
	for _, a := range agents {
		check(C.lost(a) == 0, "lost", C.lost(a))
	}
	fmt.Println("ok", len(agents))
}

func snapshot() {
	for _, a := range agents {
		status := C.take_snapshot(a)
		check(status == 0, "snapshot", status)
	}
}

// A record is a stack that an agent has got, the leaf first.
type record struct {
	calls  []string
	values [4]int64
	g      uint64
}

func (r record) has(name string) bool {
	for _, call := range r.calls {
		if strings.HasSuffix(call, name) {
			return true
		}
	}
	return false
}

// records returns what an agent has, of the stacks that contain a function.
func records(a *C.struct_profiles, profile int, name string) (list []record) {
	t := a.of[profile]
	check(t.inside == C.GLTI_INVALID || t.calls == 0, "snapshot in a handler", t.inside)
	for _, r := range unsafe.Slice(t.list, int(t.n)) {
		pcs := make([]uintptr, int(r.depth))
		for i := range pcs {
			pcs[i] = uintptr(r.pcs[i])
		}
		rec := record{g: uint64(r.g.id)}
		for i := range rec.values {
			rec.values[i] = int64(r.values[i])
		}
		frames := runtime.CallersFrames(pcs)
		for more := len(pcs) > 0; more; {
			var f runtime.Frame
			f, more = frames.Next()
			rec.calls = append(rec.calls, f.Function)
		}
		if name == "" || rec.has(name) {
			list = append(list, rec)
		}
	}
	return list
}

func sum(list []record) (values [4]int64) {
	for _, r := range list {
		for i, v := range r.values {
			values[i] += v
		}
	}
	return values
}

//go:noinline
func waitHere(c chan int) { <-c }

// checkGoroutines compares the goroutine profile with goroutines that wait.
func checkGoroutines() {
	check(runtime.NumGoroutine() == 1, "goroutines", runtime.NumGoroutine())
	never, ids := make(chan int), make(chan uint64)
	want := map[uint64]bool{}
	for i := 0; i < 50; i++ {
		go func() {
			ids <- goid()
			waitHere(never)
		}()
		want[<-ids] = true
	}
	for strings.Count(stacks(), "main.waitHere(") != len(want) {
		time.Sleep(time.Millisecond)
	}
	snapshot()
	for _, a := range agents {
		list := records(a, goroutine, "main.waitHere")
		for _, r := range list {
			check(want[r.g] && r.values[0] == 1, "goroutine", r)
		}
		check(len(list) == len(want), "goroutines", len(list), len(want))
		self := records(a, goroutine, "main.checkGoroutines")
		check(len(self) == 1 && self[0].g == goid(), "the goroutine that runs", self)
		check(len(records(a, goroutine, "gltiTakeSamples")) == 0, "the goroutine that makes the profile")
	}
	close(never)
}

var sink [][]byte

//go:noinline
func allocateHere(n int) {
	for i := 0; i < n; i++ {
		sink = append(sink, make([]byte, 5000))
	}
}

// checkHeap compares the heap profile, with each object sampled, with objects that are allocated and freed.
func checkHeap() {
	const n, size = 300, 5376 // the size class
	sink = make([][]byte, 0, n)
	allocateHere(n)
	snapshot()
	for _, a := range agents {
		list := records(a, heap, "main.allocateHere")
		check(sum(list) == [4]int64{n * size, n, 0, 0}, "allocated", list)
		for _, r := range list {
			check(r.g == goid() && (r.calls[0] == "main.allocateHere" || r.calls[0] == "runtime.makeslice"), "allocated", r)
		}
	}
	sink = nil
	for i := 0; i < 3; i++ {
		runtime.GC()
	}
	snapshot()
	for _, a := range agents {
		list := records(a, heap, "main.allocateHere")
		check(sum(list) == [4]int64{n * size, n, n * size, n}, "freed", list)
	}
}

//go:noinline
func blockHere(c chan int) { <-c }

//go:noinline
func contendHere(mu *sync.Mutex) {
	mu.Lock()
	mu.Unlock()
}

// checkContention compares the block and mutex profiles, with each event sampled, with those of the runtime.
func checkContention() {
	runtime.SetBlockProfileRate(1)
	runtime.SetMutexProfileFraction(1)
	const n = 30
	c := make(chan int)
	for i := 0; i < n; i++ {
		go func() { time.Sleep(time.Millisecond); c <- 1 }()
		blockHere(c)
	}
	var mu sync.Mutex
	for i := 0; i < n; i++ {
		mu.Lock()
		var wg sync.WaitGroup
		wg.Add(1)
		go func() { defer wg.Done(); contendHere(&mu) }()
		for !strings.Contains(stacks(), "main.contendHere(") {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Millisecond)
		mu.Unlock()
		wg.Wait()
	}
	runtime.SetBlockProfileRate(0)
	runtime.SetMutexProfileFraction(0)
	snapshot()
	for profile, name := range map[int]string{block: "main.blockHere", mutex: "main.checkContention"} {
		count, cycles := truth(profile, name)
		for _, a := range agents {
			var list []record
			for _, r := range records(a, profile, name) {
				if profile == block || !strings.HasPrefix(r.calls[0], "runtime.") { // not of a lock of the runtime
					list = append(list, r)
				}
			}
			got := sum(list)
			check(got[0] == count && got[1] == cycles && (profile == mutex || count <= n) && count > 0, "contention", profile, got, count, cycles)
		}
	}
	for _, a := range agents {
		list := records(a, block, "main.blockHere")
		check(len(list) == 1 && list[0].g == goid(), "block", list)
	}
}

// truth returns what the runtime's profile has of the stacks that contain a function.
func truth(profile int, name string) (count, cycles int64) {
	read := map[int]func([]runtime.BlockProfileRecord) (int, bool){block: runtime.BlockProfile, mutex: runtime.MutexProfile}[profile]
	list := make([]runtime.BlockProfileRecord, 10000)
	n, ok := read(list)
	check(ok, "profile", n)
	for _, r := range list[:n] {
		frames := runtime.CallersFrames(r.Stack())
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if profile == mutex && strings.HasPrefix(f.Function, "runtime.") { // of a lock of the runtime
				break
			}
			if f.Function == name {
				count += r.Count
				cycles += r.Cycles
				break
			}
		}
	}
	return count, cycles
}

//go:noinline
func burnHere(until time.Duration) (x int) {
	for begin := spent(); spent()-begin < until; {
		for i := 0; i < 1000000; i++ {
			x += i ^ x
		}
	}
	return x
}

// spent returns the processor time of the process.
func spent() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(0, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// checkCPU compares CPU profiles at 100 and 50 samples in a second of processor time with the time, while the application profiles too.
func checkCPU() {
	var own bytes.Buffer
	snapshot()
	before := make([]int, len(agents))
	for i, a := range agents {
		before[i] = len(records(a, cpu, "main.burnHere"))
	}
	const seconds = 1
	check(pprof.StartCPUProfile(&own) == nil, "StartCPUProfile")
	burnHere(seconds * time.Second / 2)
	pprof.StopCPUProfile()
	burnHere(seconds * time.Second / 2)
	snapshot()
	for i, a := range agents {
		list := records(a, cpu, "main.burnHere")[before[i]:]
		want := seconds * 100 / (i + 1)
		check(len(list) > want*6/10 && len(list) < want*14/10, "samples", len(list), want)
		for _, r := range list {
			check(r.g == goid() && r.values[0] == 1, "sample", r)
		}
	}
	unzip, err := gzip.NewReader(&own)
	check(err == nil, "profile", err)
	text, err := io.ReadAll(unzip)
	check(err == nil && bytes.Contains(text, []byte("main.burnHere")), "the application's profile", err)
}

// checkThreads compares the threads that were created with those of the runtime's profile.
func checkThreads() {
	snapshot()
	created := pprof.Lookup("threadcreate").Count()
	before := make([]int, len(agents))
	for i, a := range agents {
		before[i] = len(records(a, threads, ""))
		check(before[i] >= created, "threads", before[i], created)
	}
	var wg sync.WaitGroup
	release := make(chan int)
	locked := map[uint64]bool{}
	var mu sync.Mutex
	for i := 0; i < 40; i++ {
		wg.Add(1)
		go func() {
			runtime.LockOSThread() // so the threads do not end before the runtime's profile is read
			mu.Lock()
			locked[goid()] = true
			mu.Unlock()
			wg.Done()
			<-release
			runtime.UnlockOSThread()
		}()
	}
	wg.Wait()
	snapshot()
	made := pprof.Lookup("threadcreate").Count() - created
	snapshot()
	for i, a := range agents {
		list := records(a, threads, "")[before[i]:]
		check(len(list) >= made && made > 0, "new threads", len(list), made)
		caused := 0
		for _, r := range list {
			if locked[r.g] { // it waits, so its thread lets a new one run the others
				caused++
			} else {
				check((r.g == 0) == (len(r.calls) == 0), "thread", r)
			}
		}
		check(caused > 0, "no goroutine caused a thread", list)
	}
	close(release)
}

// checkRemoval removes handlers, and registers them again.
func checkRemoval() {
	for _, a := range agents {
		calls := a.of[heap].calls
		check(C.remove_handler(a, heap) == 0 && C.remove_handler(a, heap) == C.GLTI_INVALID, "unregister")
		snapshot()
		check(a.of[heap].calls == calls, "called after unregister")
		for i := 0; i < 20; i++ { // it can be used again, a moment later
			for C.register_again(a, heap, 1) == C.GLTI_UNAVAILABLE {
				time.Sleep(time.Millisecond)
			}
			check(C.remove_handler(a, heap) == 0, "unregister again")
		}
		for C.register_again(a, heap, 1) == C.GLTI_UNAVAILABLE {
			time.Sleep(time.Millisecond)
		}
		snapshot()
		check(sum(records(a, heap, "main.allocateHere")) == [4]int64{}, "a new profile has old objects")
	}
}

func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// goid returns the ID that a traceback has.
func goid() uint64 {
	var buf [64]byte
	id, err := strconv.ParseUint(strings.Fields(string(buf[:runtime.Stack(buf[:], false)]))[1], 10, 64)
	check(err == nil, "stack", err)
	return id
}

func check(ok bool, what string, values ...any) {
	if !ok {
		fmt.Println("wrong", what, values)
		os.Exit(1)
	}
}
