package loupe_test

import (
	"fmt"
	"testing"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestCollector compares what is seen of the garbage collector with what the runtime counts.
func TestCollector(t *testing.T) {
	for _, version := range testtarget.Versions() {
		t.Run("go"+version, func(t *testing.T) {
			p := startMill(t, version)
			s := attach(t, p.PID(), loupe.Options{Kinds: event.KindsGC})
			for _, w := range besidesTimes(s.Warnings()) {
				t.Error(w)
			}
			kinds, heap, reasons := map[event.Kind]int{}, int64(0), map[string]int{}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for ev := range s.Events() {
					kinds[ev.Kind]++
					switch ev.Kind {
					case event.HeapAlloc:
						heap = ev.Value
					case event.STWBegin:
						reasons[ev.Reason]++
					}
				}
			}()
			var alloc int64
			var collections int
			if _, err := fmt.Sscanf(p.Command("heap 200"), "heap %d %d", &alloc, &collections); err != nil {
				t.Fatal(err)
			}
			s.Detach()
			<-done
			s.Close()
			if kinds[event.GCBegin] != collections || kinds[event.GCEnd] != collections {
				t.Errorf("%v, the runtime counts %d collections", kinds, collections)
			}
			if kinds[event.STWBegin] != kinds[event.STWEnd] || kinds[event.STWBegin] < 2*collections {
				t.Errorf("%v: stops for %d collections", kinds, collections)
			}
			if diff := heap - alloc; diff < -1<<20 || diff > 1<<20 {
				t.Errorf("%d bytes of heap, the runtime counts %d", heap, alloc)
			}
			t.Log(kinds, reasons, heap, alloc)
		})
	}
}
