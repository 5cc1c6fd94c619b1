package loupe_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/realtarget"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// profileMatrix returns the executables of which recorded profiles are compared: each release, normal and stripped, and
// PIE with fewer of them.
func profileMatrix(t *testing.T) []testtarget.Spec {
	return slices.DeleteFunc(testtarget.Matrix(t, "granary"), func(s testtarget.Spec) bool { return s.Cgo })
}

// openTarget opens a target as a Process.
func openTarget(t *testing.T, target *testtarget.Process) *loupe.Process {
	t.Helper()
	p, err := loupe.OpenProcess(target.PID(), loupe.ProcessOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestHeapProfile compares heap profiles with those that the target's own runtime/pprof writes at the same time, sample by
// sample: in all states of the garbage collector, for each release.
func TestHeapProfile(t *testing.T) {
	for _, spec := range profileMatrix(t) {
		for _, rate := range []string{"1", "default"} {
			t.Run(spec.String()+"/"+rate, func(t *testing.T) {
				target := testtarget.Start(t, testtarget.Build(t, spec), rate)
				p := openTarget(t, target)
				for _, step := range []string{"", "cycles 1", "cycles 1", "cycles 1", "gc", "cycles 2"} {
					if step != "" {
						target.Command(step)
					}
					target.Command("fill")
					compareHeap(t, target, p, step != "", rate == "1")
				}
			})
		}
	}
}

// compareHeap compares the profile before and after the target has written its own. That publishes what it writes if no
// garbage collection cycle is complete yet, so only the second one is equal then.
func compareHeap(t *testing.T, target *testtarget.Process, p *loupe.Process, collected, all bool) {
	t.Helper()
	read := func() map[string][]int64 {
		prof, err := p.HeapProfile()
		if err != nil {
			t.Fatal(err)
		}
		return sampleValues(t, prof.Profile)
	}
	before := read()
	want := ownProfile(t, target, "heap")
	after := read()
	if len(want) == 0 {
		t.Error("the target's own profile has no samples")
	}
	diffSamples(t, "heap", after, want)
	if collected {
		for key, values := range before {
			if after[key] != nil && !slices.Equal(values, after[key]) {
				t.Errorf("%v before and %v after the target wrote its profile: %s", values, after[key], key)
			}
		}
	}
	if !all {
		return
	}
	objects := int64(0)
	for key, values := range after {
		if strings.Contains(key, "main.small") {
			objects += values[0]
		}
	}
	if objects == 0 || objects%300 != 0 {
		t.Errorf("%d objects by main.small: want a multiple of 300", objects)
	}
}

// ownProfile returns the samples of a profile that a target writes.
func ownProfile(t *testing.T, target *testtarget.Process, name string) map[string][]int64 {
	t.Helper()
	file := filepath.Join(t.TempDir(), "own.pb.gz")
	target.Command("profile " + name + " " + file)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	prof, err := profile.ParseData(data)
	if err != nil {
		t.Fatal(err)
	}
	return sampleValues(t, prof)
}

// sampleValues returns the values of samples by their stacks, which are functions and lines, and the size of the objects.
// Files are left out, because runtime/pprof gives all functions of one name, such as those named init, the same file.
// Samples without a value are left out: their stacks have had no events until the last garbage collection cycle.
func sampleValues(t *testing.T, prof *profile.Profile) map[string][]int64 {
	t.Helper()
	if err := prof.CheckValid(); err != nil {
		t.Fatal(err)
	}
	all := map[string][]int64{}
	for _, s := range prof.Sample {
		if slices.Max(s.Value) == 0 && slices.Min(s.Value) == 0 {
			continue
		}
		var key strings.Builder
		fmt.Fprint(&key, s.NumLabel["bytes"])
		for _, l := range s.Location {
			for _, line := range l.Line {
				fmt.Fprintf(&key, "\n  %s:%d", line.Function.Name, line.Line)
			}
		}
		values := all[key.String()]
		if values == nil {
			values = make([]int64, len(s.Value))
			all[key.String()] = values
		}
		for i, v := range s.Value {
			values[i] += v
		}
	}
	return all
}

// diffSamples reports what differs between two profiles.
func diffSamples(t *testing.T, name string, got, want map[string][]int64) {
	t.Helper()
	shown := 0
	report := func(format string, args ...any) {
		if shown++; shown <= 4 {
			t.Errorf(name+": "+format, args...)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got[key] == nil {
			report("missing: %v %s", want[key], key)
		} else if !slices.Equal(got[key], want[key]) {
			report("got %v, want %v: %s", got[key], want[key], key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if want[key] == nil {
			report("unexpected: %v %s", got[key], key)
		}
	}
	if shown > 0 {
		t.Errorf("%s: %d differences in %d samples", name, shown, len(want))
	}
}

// TestContentionProfiles compares the block and mutex profiles with those that the target's own runtime/pprof writes.
func TestContentionProfiles(t *testing.T) {
	for _, spec := range profileMatrix(t) {
		for _, rates := range []string{"1 1", "10000 5"} {
			t.Run(spec.String()+"/"+strings.Replace(rates, " ", "-", 1), func(t *testing.T) {
				target := testtarget.Start(t, testtarget.Build(t, spec), "default")
				p := openTarget(t, target)
				for name, read := range map[string]func() (*loupe.RecordedProfile, error){"block": p.BlockProfile, "mutex": p.MutexProfile} {
					if _, err := read(); !errors.Is(err, loupe.ErrProfileOff) || !strings.Contains(err.Error(), name) {
						t.Errorf("%s profile before it is enabled: %v", name, err)
					}
				}
				target.Command("enable " + rates)
				target.Command("contend")
				compareContention(t, target, "block", p.BlockProfile)
				compareContention(t, target, "mutex", p.MutexProfile)
			})
		}
	}
}

// compareContention compares a profile before and after the target has measured the rate of its clock, which it does when
// it writes its first profile. Before, Loupe measures it. The rates differ by more than a hundredth on a busy machine, where the program
// may be preempted between its readings of the two clocks.
func compareContention(t *testing.T, target *testtarget.Process, name string, read func() (*loupe.RecordedProfile, error)) {
	t.Helper()
	quiet := func(all map[string][]int64) map[string][]int64 {
		maps.DeleteFunc(all, func(key string, _ []int64) bool { return !strings.Contains(key, "main.contend") })
		return all
	}
	before, err := read()
	if err != nil {
		t.Fatal(err)
	}
	want := quiet(ownProfile(t, target, name))
	after, err := read()
	if err != nil {
		t.Fatal(err)
	}
	got := quiet(sampleValues(t, after.Profile))
	if len(want) == 0 {
		t.Errorf("%s: no samples", name)
	}
	diffSamples(t, name, got, want)
	for key, values := range quiet(sampleValues(t, before.Profile)) {
		if off := math.Abs(float64(values[1] - got[key][1])); values[0] != got[key][0] || off > 1000 && off > 0.03*float64(got[key][1]) {
			t.Errorf("%s: %v before and %v after the clock was measured: %s", name, values, got[key], key)
		}
	}
}

// TestRealHeapProfiles compares heap profiles of programs that were not written for Loupe with those that they write
// themselves. They run on meanwhile, so a garbage collection may come between the two: then they are compared again.
func TestRealHeapProfiles(t *testing.T) {
	for _, spec := range realtarget.Chosen(t) {
		t.Run(spec.Name, func(t *testing.T) {
			target := spec.Start(t)
			own := func() map[string][]int64 {
				t.Helper()
				answer, err := http.Get(target.Pprof() + "/heap?gc=1")
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				prof, err := profile.Parse(answer.Body)
				if err != nil {
					t.Fatal(err)
				}
				return sampleValues(t, prof)
			}
			load := target.StartLoad()
			load.Await(t, 20)
			// The program samples one allocation in 512 KB on average, so how soon it has some samples is a matter of chance.
			for deadline := time.Now().Add(time.Minute); len(own()) < 5; time.Sleep(50 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the program's own profile has fewer than 5 samples")
				}
			}
			if _, err := load.Stop(); err != nil {
				t.Error(err)
			}
			p, err := loupe.OpenProcess(target.PID(), loupe.ProcessOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			var got, want map[string][]int64
			for range 10 {
				want = own()
				prof, err := p.HeapProfile()
				if err != nil {
					t.Fatal(err)
				}
				got = sampleValues(t, prof.Profile)
				if maps.EqualFunc(got, want, slices.Equal) {
					break
				}
			}
			diffSamples(t, "heap", got, want)
			t.Logf("%d samples", len(want))
		})
	}
}

// TestProfileOff reads heap profiles that programs do not record.
func TestProfileOff(t *testing.T) {
	refused := func(spec testtarget.Spec, rate, want string) {
		t.Helper()
		target := testtarget.Start(t, testtarget.Build(t, spec), rate)
		_, err := openTarget(t, target).HeapProfile()
		if !errors.Is(err, loupe.ErrProfileOff) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s with rate %s: error %v, want one with %q", spec, rate, err, want)
		}
	}
	for _, spec := range profileMatrix(t) {
		refused(spec, "0", "MemProfileRate is 0")
	}
	var unlinked []testtarget.Spec
	for _, version := range testtarget.Versions() {
		if minor := testtarget.Minor(version); minor >= "1.17" {
			spec := testtarget.Spec{Program: "granary", Go: version, Tags: "bare"}
			stripped := spec
			stripped.Stripped = true
			unlinked = append(unlinked, spec, stripped)
		}
	}
	for _, spec := range testtarget.Ends(t, unlinked) {
		refused(spec, "default", "linker")
	}
}

// TestHeapProfileNotes reads profiles that have limits.
func TestHeapProfileNotes(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "granary"}), "1")
	p := openTarget(t, target)
	notes := func() string {
		t.Helper()
		prof, err := p.HeapProfile()
		if err != nil {
			t.Fatal(err)
		}
		comments := strings.Join(prof.Comments, "\n")
		for _, note := range prof.Notes {
			if !strings.Contains(comments, note) {
				t.Errorf("the note %q is not among the comments %q", note, comments)
			}
		}
		if !strings.Contains(comments, fmt.Sprint("MemProfileRate is ", prof.Period)) {
			t.Errorf("comments %q without the rate %d", comments, prof.Period)
		}
		return strings.Join(prof.Notes, "\n")
	}
	if got := notes(); !strings.Contains(got, "no garbage collection cycle is complete") || !strings.Contains(got, "was 524288 when the program started") {
		t.Errorf("notes %q", got)
	}
	target.Command("gc")
	if got := notes(); strings.Contains(got, "cycle") {
		t.Errorf("notes %q after a garbage collection", got)
	}
}

// TestHeapProfileUnderLoad reads the profile of a program that allocates, frees and collects garbage all the time. Its
// objects come in pairs, so in a profile of one moment there are as many of one kind as of the other.
func TestHeapProfileUnderLoad(t *testing.T) {
	for _, version := range testtarget.Last(t, testtarget.Among(t, "1.12.17", "1.18.10", "1.21.13", testtarget.Latest())) {
		t.Run(version, func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "granary", Go: version, Stripped: true}), "1")
			target.Command("crowd 2000")
			target.Command("storm")
			p := openTarget(t, target)
			states, mixed, worst := map[int64]bool{}, 0, time.Duration(0) // states by the number of pairs
			for begin := time.Now(); time.Since(begin) < 4*time.Second || len(states) < 10 && time.Since(begin) < time.Minute; {
				start := time.Now()
				prof, err := p.HeapProfile()
				if err != nil {
					t.Fatal(err)
				}
				worst = max(worst, time.Since(start))
				if notes := strings.Join(prof.Notes, "\n"); strings.Contains(notes, "missing") {
					t.Errorf("notes %q", notes)
				} else if strings.Contains(notes, "later") || strings.Contains(notes, "different moments") {
					mixed++
				}
				checkPairs(t, prof, states)
			}
			t.Logf("%d different states, %d profiles of several cycles or moments, at most %v for a profile", len(states), mixed, worst)
			if len(states) < 10 {
				t.Errorf("only %d different states: the test shows nothing", len(states))
			}
		})
	}
}

// checkPairs checks a profile of a program that allocates pairs.
func checkPairs(t *testing.T, prof *loupe.RecordedProfile, states map[int64]bool) {
	t.Helper()
	var pairs, partners [4]int64
	for _, s := range prof.Sample {
		if s.Value[2] < 0 || s.Value[3] < 0 || s.Value[2] > s.Value[0] || s.Value[3] > s.Value[1] {
			t.Errorf("values %v", s.Value)
		}
		for i, v := range s.Value {
			switch s.Location[0].Line[0].Function.Name {
			case "main.newPair":
				pairs[i] += v
			case "main.partner":
				partners[i] += v
			}
		}
	}
	notes := strings.Join(prof.Notes, "\n")
	if strings.Contains(notes, "later") || strings.Contains(notes, "different moments") {
		states[pairs[0]] = true
		return
	}
	const few = 16 // in the profile that the runtime itself reports, the numbers differ by up to 4
	if d := pairs[0] - partners[0]; d < -few || d > few {
		t.Errorf("%d pairs and %d partners were allocated", pairs[0], partners[0])
	}
	if strings.Contains(notes, "no garbage collection cycle is complete") {
		return // the first one is being swept: objects of one size before those of the other
	}
	states[pairs[0]] = true
	if d := pairs[2] - partners[2]; d < -few || d > few {
		t.Errorf("%d pairs and %d partners are in use", pairs[2], partners[2])
	}
}
