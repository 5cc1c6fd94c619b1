package glti

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	rawSum   uint64
	rawTable [64]uint64
	rawSlice []uint64
	rawPtr   *RawRecord
	rawAny   any
	rawMap   = map[Event]int{}
	rawChan  = make(chan Event, 1)
	rawMu    sync.Mutex
	rawText  string
)

//go:noinline
func rawOther(r *RawRecord) uint64 { return r.Args[0] }

// allowedRaw are callbacks that call nothing.
var allowedRaw = map[string]func(*RawRecord){
	"nothing": func(*RawRecord) {},
	"sum":     func(r *RawRecord) { rawSum += r.Args[0] },
	"table":   func(r *RawRecord) { rawTable[r.Event%64]++ },
	"branches": func(r *RawRecord) {
		switch {
		case r.P < 0:
			rawTable[0]++
		case r.Time > 100 && r.G.ID != 0:
			rawTable[1] = uint64(r.Time)
		}
	},
	"loop": func(r *RawRecord) {
		for i := r.Args[0]; i < r.Args[1]; i++ {
			rawSum ^= i
		}
	},
}

// refusedRaw are callbacks that do what a raw callback must not do.
var refusedRaw = map[string]func(*RawRecord){
	"call":       func(r *RawRecord) { rawSum = rawOther(r) },
	"allocate":   func(r *RawRecord) { rawSlice = make([]uint64, r.Event) },
	"append":     func(r *RawRecord) { rawSlice = append(rawSlice, r.Args[0]) },
	"index":      func(r *RawRecord) { rawSum = rawSlice[r.Event] },
	"divide":     func(r *RawRecord) { rawSum /= r.Args[0] },
	"lock":       func(r *RawRecord) { rawMu.Lock(); rawSum++; rawMu.Unlock() },
	"send":       func(r *RawRecord) { rawChan <- r.Event },
	"map":        func(r *RawRecord) { rawMap[r.Event]++ },
	"pointer":    func(r *RawRecord) { rawPtr = r },
	"interface":  func(r *RawRecord) { rawAny = r.Time },
	"text":       func(r *RawRecord) { rawText += "x" },
	"print":      func(r *RawRecord) { fmt.Println(r.Event) },
	"panic":      func(r *RawRecord) { panic("raw") },
	"goroutine":  func(r *RawRecord) { go func() { rawSum++ }() },
	"defer":      func(r *RawRecord) { defer rawMu.Unlock(); rawSum++ },
	"type":       func(r *RawRecord) { rawSum = rawAny.(uint64) },
	"deep stack": func(r *RawRecord) { var pad [1 << 14]byte; rawSum += uint64(pad[r.Event]) + uint64(len(pad)) },
	"method":     (&rawReceiver{}).record,
	"closure":    rawVariable(func(r *RawRecord) { rawSum = rawOther(r) }),
	"too large":  rawLarge,
}

type rawReceiver struct{ list []Event }

func (r *rawReceiver) record(e *RawRecord) { r.list = append(r.list, e.Event) }

// rawVariable returns a callback that calls one which the compiler does not know.
//
//go:noinline
func rawVariable(f func(*RawRecord)) func(*RawRecord) { return func(r *RawRecord) { f(r) } }

func rawLarge(r *RawRecord) {
	rawTable = [64]uint64{rawOther(r)}
}

func TestCheckRaw(t *testing.T) {
	if !canCheckRaw {
		t.Skip("there are no raw callbacks on this architecture")
	}
	if testing.CoverMode() != "" {
		t.Skip("coverage adds calls")
	}
	// The race detector adds a call for each access.
	if !errors.Is(checkRaw(func(r *RawRecord) { rawSum++ }), errRawCalls) {
		allowedRaw["atomic"] = func(r *RawRecord) { atomic.AddUint64(&rawSum, r.Args[0]) }
		for name, cb := range allowedRaw {
			if err := checkRaw(cb); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for name, cb := range refusedRaw {
		err := checkRaw(cb)
		if !errors.Is(err, errRawCalls) || !strings.Contains(err.Error(), ":") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
