package sqldb_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/probetest"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sqldb"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestPlan finds the places of all probes in executables of each release, where the kernel emulates the instruction.
func TestPlan(t *testing.T) {
	for _, spec := range testtarget.Builds(t, "ledger") {
		if spec.Go < "1.19" {
			continue
		}
		t.Run(spec.String(), func(t *testing.T) {
			set := sqldb.New(join.NewTracker(join.Options{}), nil, sqldb.Options{})
			plan, warnings, err := probe.NewPlan(probetest.Open(t, spec), probe.Want{Sets: []*probe.Set{set}})
			if err != nil || len(warnings) > 0 {
				t.Fatalf("%v, warnings %q", err, warnings)
			}
			missing := slices.Clone(sqldb.Code().Probes)
			for _, p := range plan.Probes {
				if p.Set == 0 {
					continue
				}
				missing = slices.DeleteFunc(missing, func(name string) bool { return name == p.Program })
				for _, s := range p.Sites {
					t.Logf("%s: %s+%#x, %s", p.Program, strings.TrimPrefix(s.Func, "database/sql."), s.At.Offset, s.At.Kind)
					if !s.At.Emulated {
						t.Errorf("%s: %s+%#x (%s) is not emulated", p.Program, s.Func, s.At.Offset, s.At.Kind)
					}
				}
			}
			want := []string{"tx_release_small"}
			if spec.Go >= "1.27" {
				want = []string{"tx_release"}
			}
			if !slices.Equal(missing, want) {
				t.Errorf("no places of %q, want %q", missing, want)
			}
		})
	}
}
