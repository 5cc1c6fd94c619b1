package memtrace

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// gauge compares what a trace and everything inside it have used with a limit. The hook counts into it.
type gauge struct {
	used  int64   // offset 0
	limit int64   // 8
	next  uintptr // 16: in the list of fired gauges
	fired uint32  // 24: 1 when the gauge was put into the list

	trace atomic.Pointer[trace] // nil when the trace has ended
	err   LimitError
}

// The assembly relies on these.
const (
	_ = uint(0 - unsafe.Offsetof(gauge{}.used))
	_ = uint(8-unsafe.Offsetof(gauge{}.limit)) + uint(unsafe.Offsetof(gauge{}.limit)-8)
	_ = uint(16-unsafe.Offsetof(gauge{}.next)) + uint(unsafe.Offsetof(gauge{}.next)-16)
	_ = uint(24-unsafe.Offsetof(gauge{}.fired)) + uint(unsafe.Offsetof(gauge{}.fired)-24)
)

func newGauge(t *trace, k kind, limit int64) *gauge {
	g := &gauge{limit: limit, err: LimitError{Limit: limit, kind: k}}
	g.trace.Store(t)
	atomic.StoreUint32(&g.fired, 0)
	return g
}

func (g *gauge) passed() bool { return atomic.LoadInt64(&g.used) > g.limit }

// add counts by hand. It saturates.
func (g *gauge) add(n int64) {
	for {
		old := atomic.LoadInt64(&g.used)
		sum := saturate(old, n)
		if atomic.CompareAndSwapInt64(&g.used, old, sum) {
			if sum > g.limit {
				g.cancel()
			}
			return
		}
	}
}

// cancel cancels the context of the trace.
func (g *gauge) cancel() {
	if t := g.trace.Load(); t != nil {
		t.cancel(&g.err)
	}
}

// saturate adds numbers that are not negative.
func saturate(a, b int64) int64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return maxLimit
}

// firedGauges is a list that the hook puts gauges at the beginning of. A gauge in it is alive: the goroutine that put it there
// does not stop counting before it has called cancelFired.
var firedGauges uintptr

// cancelMu is locked while the list is taken and its traces are canceled.
var cancelMu sync.Mutex

// cancelFired cancels the traces whose gauges have fired.
func cancelFired() {
	cancelMu.Lock()
	defer cancelMu.Unlock()
	for p := atomic.SwapUintptr(&firedGauges, 0); p != 0; {
		g := *(**gauge)(unsafe.Pointer(&p))
		atomic.LoadUint32(&g.fired) // what newGauge stored before can be read
		p = g.next
		if t := g.trace.Load(); t != nil && !t.bubble {
			t.cancel(&g.err)
		}
	}
}
