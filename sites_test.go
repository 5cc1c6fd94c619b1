package loupe_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/allocs"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/live"
	"github.com/loupe-go/loupe/sched"
)

// TestSiteAllocs compares the allocations by creation site in two pictures with what the goroutines of two sites say of themselves.
func TestSiteAllocs(t *testing.T) {
	for _, version := range testtarget.Versions() {
		for _, engine := range allocEngines {
			t.Run(fmt.Sprint(version, "/", engine), func(t *testing.T) {
				if engine == loupe.EngineUprobe && os.Getuid() != 0 {
					t.Skip("eBPF needs root")
				}
				target := startMaker(t, testtarget.Spec{Program: "maker", Go: version, Stripped: true}, "MAKER_PROCS=1", "GOGC=off")
				s, err := loupe.Attach(context.Background(), loupe.PID(target.PID()), loupe.Options{Engine: engine, Kinds: event.KindsDefault,
					Allocs: loupe.AllocOptions{By: loupe.AllocsByGoroutine}})
				if err != nil {
					t.Fatal(err)
				}
				t.Log(s.Warnings())
				o := live.Observe(s, live.Options{State: sched.Options{Kinds: event.KindsDefault}, Allocs: true})
				defer o.Close()
				target.Command("sites 10")
				asked := time.Now()
				o.Take(live.Query{})
				began := time.Now()
				var wide, narrow allocs.Sums
				answer := target.Command("sites 5000")
				if _, err := fmt.Sscanf(answer, "sites %d %d %d %d", &wide.Objects, &wide.Bytes, &narrow.Objects, &narrow.Bytes); err != nil {
					t.Fatal(err, answer)
				}
				time.Sleep(100 * time.Millisecond)
				least := time.Since(began)
				after := o.Take(live.Query{})
				most := time.Since(asked)
				compareSite(t, after, "main.makeWide", wide)
				compareSite(t, after, "main.makeNarrow", narrow)
				a := after.Allocs
				if a == nil || a.Lost != 0 || a.Interval < least || a.Interval > most {
					t.Fatalf("%+v in %v to %v", a, least, most)
				}
				var sum allocs.Sums
				for i := range after.Sites {
					sum.Add(after.Sites[i].AllocsDelta)
				}
				sum.Add(a.ElsewhereDelta)
				if sum != a.TotalDelta {
					t.Errorf("rows %+v, total %+v", sum, a.TotalDelta)
				}
				if share := float64(a.ElsewhereDelta.Bytes) / float64(a.TotalDelta.Bytes); share > 0.001 {
					t.Errorf("%+v of %+v are elsewhere", a.ElsewhereDelta, a.TotalDelta)
				}
				// The memory statistics count the same without probes. The first reading is a little earlier than the first counts.
				if books := after.Memory.Now.Heap.TotalAlloc - after.Memory.Before.Heap.TotalAlloc; math.Abs(float64(books)-float64(a.TotalDelta.Bytes)) > 64<<10 {
					t.Errorf("%d bytes by the memory statistics, %d counted", books, a.TotalDelta.Bytes)
				}
			})
		}
	}
}

// compareSite compares the allocations of the goroutines with a start function in the interval of a picture. The target counts those of
// the whole program meanwhile.
func compareSite(t *testing.T, p *live.Picture, function string, want allocs.Sums) {
	t.Helper()
	i := slices.IndexFunc(p.Sites, func(row live.SiteRow) bool { return row.Origin != nil && row.Origin.Start.Func == function })
	if i < 0 {
		t.Fatalf("no row for %s", function)
	}
	got := p.Sites[i].AllocsDelta
	bytes, objects := p.Allocs.Rate(got)
	t.Logf("%s: %d objects, %d bytes; %.0f objects/s, %.0f bytes/s; it says %d and %d", function, got.Objects, got.Bytes, objects, bytes, want.Objects, want.Bytes)
	const objectsOff, bytesOff = 3, 500
	if off := int64(got.Objects - want.Objects); off < -objectsOff || off > objectsOff {
		t.Errorf("%s: %d objects, want %d", function, got.Objects, want.Objects)
	}
	if off := int64(got.Bytes - want.Bytes); off < -bytesOff || off > bytesOff {
		t.Errorf("%s: %d bytes, want %d", function, got.Bytes, want.Bytes)
	}
	seconds := p.Allocs.Interval.Seconds()
	if math.Abs(bytes*seconds-float64(got.Bytes)) > 1 || math.Abs(objects*seconds-float64(got.Objects)) > 1 {
		t.Errorf("%s: %v bytes/s and %v objects/s for %v s", function, bytes, objects, seconds)
	}
}
