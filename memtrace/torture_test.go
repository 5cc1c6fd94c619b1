package memtrace

import (
	"bytes"
	"context"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// deep uses up stack, so that it grows, and allocates at the bottom.
func deep(n int) byte {
	var frame [128]byte
	frame[n%128] = byte(n)
	if n == 0 {
		return keepMade(new([64]byte))[0]
	}
	return deep(n-1) + frame[(n+1)%128]
}

// disturb makes everything happen that interrupts goroutines, until the test ends.
func disturb(t *testing.T) {
	t.Helper()
	old := debug.SetGCPercent(5)
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(2)
	go func() {
		defer wg.Done()
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	go func() {
		defer wg.Done()
		stacks := make([]byte, 1<<20)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				runtime.Stack(stacks, true)
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		wg.Wait()
		pprof.StopCPUProfile()
		debug.SetGCPercent(old)
	})
}

// TestTorture counts in many goroutines that come and go while they are disturbed, and next to goroutines that are not traced.
func TestTorture(t *testing.T) {
	disturb(t)
	end := time.Now().Add(3 * time.Second)
	var untraced, traced sync.WaitGroup
	var stop atomic.Bool
	for range 4 {
		untraced.Add(1)
		go func() {
			defer untraced.Done()
			var local []*[64]byte
			for !stop.Load() {
				local = append(local[:0], new([64]byte))
				_ = strings.Repeat("u", 100)
			}
		}()
	}
	var traces, exact atomic.Int64
	for range 8 {
		traced.Add(1)
		go func() {
			defer traced.Done()
			for time.Now().Before(end) {
				var wg sync.WaitGroup
				for n := range 50 {
					wg.Add(1)
					go func() {
						defer wg.Done()
						err := Trace(context.Background(), func(ctx Context) {
							var local [8]*[64]byte
							for i := range 100 {
								local[i%8] = keepMade(new([64]byte))
							}
							deep(n * 10)
							inner := Trace(ctx, func(Context) {
								for i := range 100 {
									local[i%8] = keepMade(new([64]byte))
								}
							}, WithLimitObjects(50))
							if inner != nil {
								t.Error(inner)
							}
							runtime.KeepAlive(local)
							// An allocation that starts the garbage collector, or waits for it, makes the runtime allocate.
							b, o, _ := ctx.Used()
							more, moreBytes := o-201, b-201*64
							if more < 0 || more > 9 || moreBytes < 8*more || moreBytes > 256*more {
								t.Errorf("%d bytes in %d objects, want %d in 201", b, o, 201*64)
							} else if more == 0 {
								exact.Add(1)
							}
						})
						if err != nil {
							t.Error(err)
						}
						traces.Add(2)
					}()
				}
				wg.Wait()
			}
		}()
	}
	traced.Wait()
	stop.Store(true)
	untraced.Wait()
	t.Logf("%d traces, %d pairs with no objects of the runtime", traces.Load(), exact.Load())
	if exact.Load() < traces.Load()/4 {
		t.Error("most traces had objects of the runtime")
	}
	if left := attached(); left != 0 {
		t.Errorf("%d goroutines are still in the table", left)
	}
}

// keepMade makes its argument escape.
func keepMade(p *[64]byte) *[64]byte {
	sinkShared.Store(p)
	return p
}

// attached returns the number of entries of the table.
func attached() int {
	goroutines.mu.Lock()
	defer goroutines.mu.Unlock()
	n := 0
	v := newestVersion()
	for i := range v.mask + 1 {
		for _, s := range v.bucket(i) {
			if s.g != 0 {
				n++
			}
		}
	}
	return n
}

// TestManyGoroutines traces many goroutines at the same time.
func TestManyGoroutines(t *testing.T) {
	noGC(t)
	const n = manyGoroutines
	var started, ended sync.WaitGroup
	started.Add(n)
	ended.Add(n)
	release := make(chan struct{})
	var wrong atomic.Int64
	for range n {
		go func() {
			defer ended.Done()
			Trace(context.Background(), func(ctx Context) {
				keepMade(new([64]byte))
				started.Done()
				<-release
				p := keepMade(new([64]byte))
				runtime.KeepAlive(p)
				if b, o, _ := ctx.Used(); b < 64 || o < 1 || o > 4 {
					wrong.Add(1)
				}
			})
		}()
	}
	started.Wait()
	if got := attached(); got != n {
		t.Errorf("%d goroutines in the table, want %d", got, n)
	}
	if slots := bucketSlots * (newestVersion().mask + 1); slots > 64*n {
		t.Errorf("the table has %d slots for %d goroutines", slots, n)
	}
	runtime.GC()
	close(release)
	ended.Wait()
	if wrong.Load() != 0 {
		t.Errorf("%d goroutines counted wrongly", wrong.Load())
	}
	if left := attached(); left != 0 {
		t.Errorf("%d goroutines are still in the table", left)
	}
}

// TestSharedLimit checks that the goroutines of a trace share its limit, and that it is passed exactly.
func TestSharedLimit(t *testing.T) {
	const goroutineCount, limit = 16, 10_000
	var after atomic.Int64
	err := Trace(context.Background(), func(ctx Context) {
		var wg sync.WaitGroup
		for range goroutineCount {
			wg.Add(1)
			Go(ctx, func() {
				defer wg.Done()
				for ctx.Err() == nil {
					sinkShared.Store(new([64]byte))
				}
				after.Add(1)
			})
		}
		wg.Wait()
		_, objects, _ := ctx.Used()
		// Each goroutine may make one more object before it looks again.
		if objects < limit || objects > limit+2*goroutineCount+64 {
			t.Errorf("%d objects, limit %d", objects, limit)
		}
	}, WithLimitObjects(limit))
	if err != nil || after.Load() != goroutineCount {
		t.Error(err, after.Load())
	}
}

var sinkShared atomic.Pointer[[64]byte]
