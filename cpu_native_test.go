package loupe_test

import (
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// nativeLoads are loads of the program burner that use their time in C code that keeps no frame pointers.
var nativeLoads = []string{"native", "vdso", "jit", "cthread"}

// chain returns the C functions of a stack as a text, the outermost first, without those of libraries.
func chain(names []string) string {
	var own []string
	for _, name := range names {
		name, _, _ = strings.Cut(name, ".") // gcc makes clones: sorted.constprop.0
		if slices.Contains([]string{"alone", "ask", "jit", "descend", "sorted", "compare", "work"}, name) {
			own = append(own, name)
		}
	}
	slices.Reverse(own)
	return strings.Join(own, ";")
}

// chains returns the chain of a sample, without C functions "other".
func chains(s *profile.Sample) []string {
	var names []string
	for _, l := range s.Location {
		for _, line := range l.Line {
			if isNative(line.Function) {
				names = append(names, line.Function.Name)
			}
		}
	}
	if c := chain(names); c != "" {
		return []string{c}
	}
	return []string{"other"}
}

// TestCPUNative profiles chains of C functions whose shape is known.
func TestCPUNative(t *testing.T) {
	specs := []testtarget.Spec{{Cgo: true}}
	if testtarget.Complete() {
		specs = append(specs, testtarget.Spec{Cgo: true, PIE: true}, testtarget.Spec{Cgo: true, Go: testtarget.Versions()[0]})
	}
	for _, spec := range specs {
		for _, noEBPF := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/eBPF=%v", spec, !noEBPF), func(t *testing.T) {
				if spec.Unsupported() != "" {
					t.Skip(spec.Unsupported())
				}
				target := burn(t, spec, nativeLoads...)
				defer target.Stop()
				missing := maps.Clone(nativeChains)
				for range 30 { // on a busy machine, some threads get little time
					seen := checkNative(t, cpuProfile(t, target.PID(), loupe.CPUOptions{NoEBPF: noEBPF}))
					maps.DeleteFunc(missing, func(c, _ string) bool { return seen[c] })
					if len(missing) == 0 {
						return
					}
				}
				t.Errorf("no sample of %v", slices.Collect(maps.Keys(missing)))
			})
		}
	}
}

const (
	sortChain = "descend;descend;descend;descend;sorted;compare;work"
	deepChain = "descend;descend;descend;descend;descend;" + sortChain
)

// nativeChains are the chains of the loads, and the Go functions that call them.
var nativeChains = map[string]string{"ask": "main.inVDSO", sortChain: "main.inNative", deepChain: "main.inNative", "jit;work": "main.inJIT", "alone;work": ""}

// checkNative checks the stacks of the loads in C, and returns the chains that it has seen.
func checkNative(t *testing.T, p *loupe.CPUProfile) map[string]bool {
	t.Helper()
	by := sharesBy(p.Profile, false, chains)
	broken := int64(0)
	for _, s := range p.Sample {
		want, known := nativeChains[chains(s)[0]]
		if !known {
			continue
		}
		last := s.Location[len(s.Location)-1]
		outer := last.Line[len(last.Line)-1].Function
		late := slices.Contains(s.Label["goroutine"], "unknown")
		switch {
		case want == "" && !isNative(outer), want != "" && outer.Name != want && !late:
			t.Errorf("%q is called by %s, want %q", chains(s), outer.Name, want)
		}
		unknown := 0
		for _, l := range s.Location {
			if l.Line[0].Function.Name == "runtime._ExternalCode" {
				unknown++
			}
		}
		if want == "main.inJIT" && runtime.GOARCH == "amd64" {
			unknown-- // for the code that is in no file
		}
		if unknown != 0 {
			broken += s.Value[0]
		}
	}
	t.Logf("%d samples, %d with unknown C functions or callers; shares: %v", by.total, broken, by.by)
	if p.NoEBPF == "" && broken > 0 || float64(broken) > 0.02*float64(by.total) { // the kernel does not report all registers of its own samples
		t.Errorf("%d of %d samples have unknown C functions or callers", broken, by.total)
	}
	seen := map[string]bool{}
	for c := range nativeChains {
		seen[c] = by.by[c] > 0
	}
	return seen
}

// perfSymbol is a frame that perf script prints.
var perfSymbol = regexp.MustCompile(`^\s+[0-9a-f]+\s+(.*?)(\+0x[0-9a-f]+)?( \(.*\))?$`)

// TestCPUNativePerf compares the stacks of C functions with those that perf computes with the libraries of elfutils.
func TestCPUNativePerf(t *testing.T) {
	testtarget.Whole(t, "perf")
	target := burn(t, testtarget.Spec{Cgo: true}, "native", "vdso", "cthread") // perf finds no callers of code without a file
	ours, file := besidePerf(t, target, "--call-graph", "dwarf,16384", "-a")   // with -p it can miss a thread
	out, err := testcmd.Within(t, 0, "perf", "script", "-i", file, "--pid", strconv.Itoa(target.PID()), "--no-inline", "-F", "ip,sym").Output()
	if err != nil {
		t.Fatal(err)
	}
	theirs := shares{by: map[string]int64{}}
	for stack := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n\n") {
		var names []string
		for line := range strings.Lines(stack) {
			if m := perfSymbol.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
				names = append(names, m[1])
			}
		}
		key := chain(names)
		if key == "" {
			key = "other"
		}
		theirs.total++
		theirs.by[key]++
	}
	t.Logf("%d samples of perf", theirs.total)
	compareShares(t, "perf", maxZ, sharesBy(ours.Profile, false, chains), theirs)
}
