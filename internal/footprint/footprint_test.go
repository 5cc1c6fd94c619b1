package footprint

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	for live, want := range map[uint64]int{0: 150, 1 << 20: 150, 16 << 20: 150, 32 << 20: 150, 64 << 20: 100, 128 << 20: 50, 1 << 40: 50} {
		if got := Command().percentFor(live); got != want {
			t.Errorf("percentFor(%d) = %d, want %d", live, got, want)
		}
	}
}

// TestSet allocates much and keeps it: garbage is collected more often then, and rarely again afterwards.
func TestSet(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	limits := Command()
	limits.Set()
	if got := runtime.GOMAXPROCS(0); got != limits.Procs {
		t.Errorf("GOMAXPROCS is %d, want %d", got, limits.Procs)
	}
	await := func(want int) {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		for {
			runtime.GC()
			time.Sleep(time.Millisecond) // for the finalizer
			got := debug.SetGCPercent(want)
			debug.SetGCPercent(got)
			if got == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the percentage is %d, want %d", got, want)
			}
		}
	}
	await(limits.MaxPercent)
	much := make([]byte, 256<<20)
	await(limits.MinPercent)
	runtime.KeepAlive(much)
	await(limits.MaxPercent)
}
