package functions_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/probetest"
	"github.com/loupe-go/loupe/internal/spans/functions"
	"github.com/loupe-go/loupe/internal/spans/functions/unwind"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestPlan finds the places of all probes in executables of each release and architecture.
func TestPlan(t *testing.T) {
	for _, spec := range testtarget.Builds(t, "smith") {
		if spec.Go < "1.19" {
			continue
		}
		t.Run(spec.String(), func(t *testing.T) {
			exe := probetest.Open(t, spec)
			list, _, err := functions.Find(exe.Binary(), selected)
			if err != nil {
				t.Fatal(err)
			}
			sets := functions.Sets(list, join.NewTracker(join.Options{}), nil)
			plan, warnings, err := probe.NewPlan(exe, probe.Want{Sets: sets})
			if err != nil || len(warnings) > 0 {
				t.Fatalf("%v, warnings %q", err, warnings)
			}
			planned := map[int][]string{} // by set
			for _, p := range plan.Probes {
				planned[p.Set] = append(planned[p.Set], p.Program)
				if at := p.Sites[0]; p.Set > 0 && strings.HasPrefix(at.Func, "runtime.") && !at.At.Emulated {
					t.Errorf("%s: %s+%#x (%s) is not emulated", p.Program, at.Func, at.At.Offset, at.At.Kind)
				}
			}
			for i, set := range sets {
				want := []string{"returned", "called"}
				if set.Name == unwind.Name {
					want = unwind.Code().Probes
				}
				if !slices.Equal(planned[i+1], want) {
					t.Errorf("%s: places of %q, want %q", set.Name, planned[i+1], want)
				}
			}
		})
	}
}
