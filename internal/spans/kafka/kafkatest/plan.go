package kafkatest

import (
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/probetest"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// Plan checks that the probes of a set have places in executables of a program, for arm64 only with the newest Go release. missing returns
// the programs of the probes that have none; a name with a question mark is that of one that may have none.
func Plan(t *testing.T, program, prefix string, versions []Version, set func(v Version) *probe.Set, missing func(v Version, arch string) []string) {
	if !testtarget.Requested() {
		versions = versions[len(versions)-1:]
		t.Log(testtarget.LeftOut + "versions other than the newest")
	}
	for _, v := range versions {
		for _, b := range testtarget.Variants(t, testtarget.Since(v.Release)...) {
			for _, arch := range []string{testtarget.AMD64, testtarget.ARM64} {
				if arch == testtarget.ARM64 && b.Go != testtarget.Latest() {
					continue
				}
				spec := v.spec(program, prefix, b.Go, b.Stripped)
				spec.Arch = arch
				t.Run(spec.String(), func(t *testing.T) {
					s := set(v)
					plan, warnings, err := probe.NewPlan(probetest.Open(t, spec), probe.Want{Sets: []*probe.Set{s}, Propagate: &probe.Propagate{}})
					if err != nil {
						t.Fatal(err)
					}
					t.Logf("warnings: %q", warnings)
					var got []string
					for _, name := range s.Code.Probes {
						if !slices.ContainsFunc(plan.Probes, func(p probe.Probe) bool { return p.Set > 0 && p.Program == name }) {
							got = append(got, name)
						}
					}
					want := missing(v, arch)
					got = slices.DeleteFunc(got, func(name string) bool { return slices.Contains(want, name+"?") })
					want = slices.DeleteFunc(want, func(name string) bool { return strings.HasSuffix(name, "?") })
					if !slices.Equal(got, want) {
						t.Errorf("no places of %q, want %q", got, want)
					}
				})
			}
		}
	}
}
