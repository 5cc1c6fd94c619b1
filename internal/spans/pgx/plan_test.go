package pgx_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/probetest"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/pgx"
)

// TestPlan finds the places of all probes in executables of each version, where the kernel emulates the instruction.
func TestPlan(t *testing.T) {
	for _, spec := range specs(t) {
		t.Run(spec.String(), func(t *testing.T) {
			set := pgx.New(join.NewTracker(join.Options{}), pgx.Options{})
			plan, warnings, err := probe.NewPlan(probetest.Open(t, spec), probe.Want{Sets: []*probe.Set{set}})
			if err != nil || len(warnings) > 0 {
				t.Fatalf("%v, warnings %q", err, warnings)
			}
			missing := slices.Clone(pgx.Code().Probes)
			for _, p := range plan.Probes {
				if p.Set == 0 {
					continue
				}
				missing = slices.DeleteFunc(missing, func(name string) bool { return name == p.Program })
				for _, s := range p.Sites {
					t.Logf("%s: %s+%#x, %s", p.Program, s.Func, s.At.Offset, s.At.Kind)
					if !s.At.Emulated {
						t.Errorf("%s: %s+%#x (%s) is not emulated", p.Program, s.Func, s.At.Offset, s.At.Kind)
					}
				}
			}
			want := []string{"batch_end", "pipeline_end"}
			if strings.Contains(spec.Flags, "-5.0.") {
				want = []string{"results_end"}
			}
			if !slices.Equal(missing, want) {
				t.Errorf("no places of %q, want %q", missing, want)
			}
		})
	}
}
