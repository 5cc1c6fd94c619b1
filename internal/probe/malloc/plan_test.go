package malloc

import (
	"testing"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/probetest"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestPlan checks the places in executables of each release: none at the first instruction of a function.
func TestPlan(t *testing.T) {
	for _, spec := range testtarget.Builds(t, "maker") {
		spec.Stripped = true
		t.Run(spec.String(), func(t *testing.T) {
			e := probetest.Open(t, spec)
			set := New(Options{By: ByGoroutine | ByPlace})
			plan, warnings, err := probe.NewPlan(e, probe.Want{Sets: []*probe.Set{set.Probes}})
			if err != nil || len(warnings) > 0 || len(plan.Probes) != 1 {
				t.Fatalf("%d probes, %v, %v", len(plan.Probes), warnings, err)
			}
			places := 1
			if e.Binary().Version().Minor >= 27 {
				places = 15 // mallocgc, 7 for objects with pointers, 6 for others, and that of the tiny allocator
			}
			if got := plan.Probes[0].Sites; len(got) != places {
				t.Errorf("%d places, want %d: %+v", len(got), places, got)
			}
			for _, site := range plan.Probes[0].Sites {
				if f, ok := e.Binary().FuncForPC(site.Addr); !ok || f.Entry == site.Addr || !site.At.Emulated {
					t.Errorf("%s: a place at %#x, %+v; the function begins at %#x", site.Func, site.Addr, site.At, f.Entry)
				}
			}
		})
	}
}
