package redis_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/probetest"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/redis"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestPlan finds the places of all probes in executables of each version, where the kernel emulates the instruction.
func TestPlan(t *testing.T) {
	for _, v := range versions {
		if !testtarget.Requested() && fewVersions[v.name] == nil {
			continue
		}
		for _, b := range testtarget.Variants(t, v.releases...) {
			arches := []string{testtarget.AMD64, testtarget.ARM64} // the libraries are compiled for each
			for _, arch := range testtarget.EachOr(t, arches, func(a string) bool { return a == testtarget.AMD64 || b.Go == testtarget.Latest() }) {
				spec := v.spec(b.Go, b.Stripped)
				spec.Arch = arch
				t.Run(spec.String(), func(t *testing.T) { checkPlan(t, v, spec) })
			}
		}
	}
}

func checkPlan(t *testing.T, v version, spec testtarget.Spec) {
	for _, module := range []string{redis.V8, redis.V9} {
		set := redis.New(module, join.NewTracker(join.Options{}), nil, redis.Options{})
		plan, warnings, err := probe.NewPlan(probetest.Open(t, spec), probe.Want{Sets: []*probe.Set{set}})
		if module != v.library() {
			if err == nil {
				t.Errorf("places for %s: %+v", module, plan.Probes)
			}
			continue
		}
		if err != nil || len(warnings) > 0 {
			t.Fatalf("%v, warnings %q", err, warnings)
		}
		missing := slices.Clone(redis.Code().Probes)
		for _, p := range plan.Probes {
			if p.Set == 0 {
				continue
			}
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == p.Program })
			for _, s := range p.Sites {
				t.Logf("%s: %s+%#x, %s", p.Program, strings.TrimPrefix(s.Func, module+"."), s.At.Offset, s.At.Kind)
				if !s.At.Emulated {
					t.Errorf("%s: %s+%#x (%s) is not emulated", p.Program, s.Func, s.At.Offset, s.At.Kind)
				}
			}
		}
		if want := v.missing(spec.Go); !slices.Equal(missing, want) {
			t.Errorf("no places of %q, want %q", missing, want)
		}
	}
}

// missing returns the probes that have no places in a program of a Go release.
func (v version) missing(release string) []string {
	switch {
	case v.name == "9.22" || v.name == "9.23":
		return []string{"release"}
	case v.major == 9:
		return []string{"release_to_pool"}
	}
	var list []string
	if release >= "1.21" { // the compiler has inlined the functions
		list = append(list, "node_batch", "node_transaction")
	}
	list = append(list, "release_to_pool")
	if v.name == "8.0" {
		list = append(list, "slept")
	}
	return list
}
