package testtarget

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// releases holds the newest patch of every supported Go release, oldest first.
var releases = [...]string{
	"1.12.17", "1.13.15", "1.14.15", "1.15.15", "1.16.15", "1.17.13",
	"1.18.10", "1.19.13", "1.20.14", "1.21.13", "1.22.12", "1.23.12",
	"1.24.13", "1.25.14", "1.26.11", "1.27.4",
}

// few lists the releases that "few" selects: the oldest, the first that passes arguments in registers, and the newest. Compiling for one more
// release takes minutes.
var few = []string{Minor(releases[0]), "1.17", Minor(Latest())}

// AllVersions returns the Go releases that Loupe supports as targets, oldest first, each as the newest patch of its minor
// release ("1.12.17").
func AllVersions() []string { return slices.Clone(releases[:]) }

// Versions returns the Go releases that tests are to run with, oldest first. The environment variable LOUPE_RELEASES
// chooses them: "few", "all" (the default), or minor releases as in "1.12 1.27". "each" is all, too: see Each.
func Versions() []string { return slices.Clone(chosen()) }

var chosen = sync.OnceValue(func() []string {
	list, err := choose(os.Getenv("LOUPE_RELEASES"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return list
})

// choose returns the releases of a value of LOUPE_RELEASES.
func choose(value string) ([]string, error) {
	wanted := strings.Fields(value)
	switch value {
	case "", "all", "each":
		return releases[:], nil
	case "few":
		wanted = few
	}
	var list []string
	for _, r := range releases {
		if slices.Contains(wanted, Minor(r)) {
			list = append(list, r)
		}
	}
	for _, w := range wanted {
		if !slices.ContainsFunc(releases[:], func(r string) bool { return Minor(r) == w }) {
			return nil, fmt.Errorf("LOUPE_RELEASES=%q: no release %q, only %s to %s, few, all and each", value, w, Minor(releases[0]), Minor(Latest()))
		}
	}
	return list, nil
}

// Beginnings of the line in which a test logs what it leaves out.
const (
	LeftOut     = "only with RELEASES=all: "  // because LOUPE_RELEASES does not choose all releases
	LeftOutEach = "only with RELEASES=each: " // because LOUPE_RELEASES is not "each"
	LeftOutKube = "only with make kube: "     // because LOUPE_KUBE is not set
)

// Each reports whether LOUPE_RELEASES is "each": tests that have many builds of a program run with each of them, which takes hours. With
// "all" such a test runs with some of them.
func Each() bool { return os.Getenv("LOUPE_RELEASES") == "each" }

// Requested reports whether LOUPE_RELEASES is "all" or "each". It is for what takes so long that it does not run if LOUPE_RELEASES is not set.
func Requested() bool { return Each() || os.Getenv("LOUPE_RELEASES") == "all" }

// A Variant is how a program is built: by a Go release, with symbols or without.
type Variant struct {
	Go       string
	Stripped bool
}

// String returns "go1.27.4/stripped".
func (v Variant) String() string {
	if v.Stripped {
		return "go" + v.Go + "/stripped"
	}
	return "go" + v.Go + "/normal"
}

// Variants returns how to build a program with one version of a library. The releases, oldest first, are those to build it with besides the
// newest one. The variants are the first of them, not stripped, and the newest, stripped; if LOUPE_RELEASES is "each", all of them in both
// ways; if it is neither "each" nor "all", the newest, stripped. The test logs the others.
func Variants(tb testing.TB, releases ...string) []Variant {
	tb.Helper()
	var list []Variant
	for _, release := range slices.Compact(append(slices.Clone(releases), Latest())) {
		list = append(list, Variant{release, false}, Variant{release, true})
	}
	first, last := list[0], list[len(list)-1]
	if !Requested() {
		return among(tb, list, func(v Variant) bool { return v == last })
	}
	return EachOr(tb, list, func(v Variant) bool { return v == first || v == last })
}

// Since returns a release, the newest one, and one between them, oldest first.
func Since(oldest string) []string {
	i := slices.Index(releases[:], oldest)
	return slices.Compact([]string{oldest, releases[(i+len(releases)-1)/2], Latest()})
}

// Among returns those of a test's own list of releases that LOUPE_RELEASES chooses, besides the newest, which is always
// among them. The test logs the others.
func Among(tb testing.TB, releases ...string) []string {
	tb.Helper()
	return among(tb, releases, isChosen)
}

// OrLatest returns a release if LOUPE_RELEASES chooses it, and otherwise the newest; the test logs that the release is left out.
func OrLatest(tb testing.TB, release string) string {
	tb.Helper()
	return Among(tb, release, Latest())[0]
}

// SpecsAmong is Among for specs.
func SpecsAmong(tb testing.TB, specs ...Spec) []Spec {
	tb.Helper()
	return among(tb, specs, func(s Spec) bool { return isChosen(s.withDefaults().Go) })
}

// Rare returns a list of what takes long to build and adds little to what a test runs with: nil unless LOUPE_RELEASES
// chooses all releases. The test logs what it leaves out.
func Rare[T any](tb testing.TB, list ...T) []T {
	tb.Helper()
	return among(tb, list, func(T) bool { return Complete() })
}

// Ends returns the first and the last element of a list of releases or specs, oldest first. If LOUPE_RELEASES chooses all releases, one in three
// between are among them, and if it is "each", all. It is for what takes long. The test logs the others.
func Ends[T any](tb testing.TB, list []T) []T {
	tb.Helper()
	n := 0
	end := func(T) bool { n++; return n == 1 || n == len(list) || Complete() && (len(list)-n)%3 == 0 }
	if Complete() {
		return EachOr(tb, list, end)
	}
	return among(tb, list, end)
}

// EachOr returns a list if LOUPE_RELEASES is "each", and otherwise those of its elements that are wanted in any case. The test logs the others.
func EachOr[T any](tb testing.TB, list []T, wanted func(T) bool) []T {
	tb.Helper()
	return split(tb, LeftOutEach, list, func(v T) bool { return wanted(v) || Each() })
}

// Last returns a list of releases or specs, oldest first, if LOUPE_RELEASES chooses all releases, and its last element alone
// otherwise. It is for what takes longest. The test logs the others.
func Last[T any](tb testing.TB, list []T) []T {
	tb.Helper()
	n := 0
	return among(tb, list, func(T) bool { n++; return Complete() || n == len(list) })
}

// Some returns a list of what a test does many times if LOUPE_RELEASES is "each". Otherwise it returns one in n of its elements, or three times as
// many if LOUPE_RELEASES chooses all releases. The test logs how many it leaves out.
func Some[T any](tb testing.TB, list []T, n int) []T {
	tb.Helper()
	why := LeftOut
	switch {
	case Each():
		n = 1
	case Complete():
		n, why = max(n/3, 1), LeftOutEach
	}
	var some []T
	for i := 0; i < len(list); i += n {
		some = append(some, list[i])
	}
	if len(some) < len(list) {
		tb.Logf(why+"%d more of %d", len(list)-len(some), len(list))
	}
	return some
}

// Builds returns the specs of a program that are analyzed but need not run: each of Versions for amd64, for arm64, and position-independent. For
// each of the latter two the standard library is compiled once more, so unless LOUPE_RELEASES chooses all releases, only the newest has these,
// and one in three is position-independent unless it is "each". The test logs what it leaves out.
func Builds(tb testing.TB, program string) []Spec {
	tb.Helper()
	versions := Versions()
	var specs []Spec
	for _, v := range versions {
		specs = append(specs, Spec{Program: program, Go: v, Arch: AMD64}, Spec{Program: program, Go: v, Arch: AMD64, PIE: true},
			Spec{Program: program, Go: v, Arch: ARM64})
	}
	specs = EachOr(tb, specs, func(s Spec) bool { return !s.PIE || (len(versions)-1-slices.Index(versions, s.Go))%3 == 0 })
	return among(tb, specs, func(s Spec) bool { return Complete() || s.Go == Latest() || s.Arch == AMD64 && !s.PIE })
}

// Whole leaves a test out unless LOUPE_RELEASES chooses all releases. It is for tests that take long, or require large packages. The
// reason says what is not tested. The test report counts the test as left out, not as skipped.
func Whole(tb testing.TB, reason string) {
	tb.Helper()
	if !Complete() {
		tb.Skip(LeftOut + reason)
	}
}

// Kube leaves a test out unless LOUPE_KUBE is set, as make kube does, and LOUPE_RELEASES chooses all releases. It is for tests that
// require a program that takes many minutes to build. The test report counts the test as left out, not as skipped.
func Kube(tb testing.TB, program string) {
	tb.Helper()
	Whole(tb, program)
	if os.Getenv("LOUPE_KUBE") == "" {
		tb.Skip(LeftOutKube + program)
	}
}

// Needs skips a test if a command is not installed, and names the Debian package that has it.
func Needs(tb testing.TB, command, debian string) {
	tb.Helper()
	if _, err := exec.LookPath(command); err != nil {
		tb.Skipf("needs %s (Debian package %s)", command, debian)
	}
}

// RunsToolTrace reports whether a test is to run go tool trace of a release such as "1.24.13". Since Go 1.25 the go command compiles
// it first, which takes long, so unless LOUPE_RELEASES chooses all releases, it is left out, and the test logs that.
func RunsToolTrace(tb testing.TB, release string) bool {
	tb.Helper()
	const compiled = 25
	runs := Complete() || Spec{Go: release}.minor() < compiled
	if !runs {
		tb.Log(LeftOut + "go tool trace of Go " + Minor(release))
	}
	return runs
}

// Complete reports whether LOUPE_RELEASES chooses all releases.
func Complete() bool { return len(chosen()) == len(releases) }

func isChosen(release string) bool {
	return release == Latest() || slices.Contains(chosen(), release)
}

func among[T any](tb testing.TB, list []T, wanted func(T) bool) []T {
	tb.Helper()
	return split(tb, LeftOut, list, wanted)
}

// split returns the wanted elements of a list, and logs the others, and why they are left out.
func split[T any](tb testing.TB, why string, list []T, wanted func(T) bool) []T {
	tb.Helper()
	var in, out []T
	for _, v := range list {
		if wanted(v) {
			in = append(in, v)
		} else {
			out = append(out, v)
		}
	}
	if len(out) > 0 {
		tb.Logf("%s%v", why, out)
	}
	return in
}

// Minor returns the minor release of a release, "1.12" of "1.12.17".
func Minor(release string) string { return release[:strings.LastIndexByte(release, '.')] }

// Latest returns the newest supported release, whatever LOUPE_RELEASES says.
func Latest() string { return releases[len(releases)-1] }
