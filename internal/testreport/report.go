package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// testEvent is one line of `go test -json`; `go doc test2json` describes it.
type testEvent struct {
	Time       time.Time
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64 // seconds
}

// testName names a test, or a package if test is empty.
type testName struct{ pkg, test string }

func (n testName) String() string {
	if n.test == "" {
		return n.pkg
	}
	return n.pkg + " " + n.test
}

// runningTest is a test that has begun and has not ended.
type runningTest struct {
	output strings.Builder
	began  time.Time
	paused bool // it waits in t.Parallel
}

// report collects what happened. Its methods may be called from several goroutines.
type report struct {
	mu      sync.Mutex
	out     io.Writer
	running map[testName]*runningTest
	started map[string]time.Time // packages that have begun and have not ended
	failing map[string]bool      // packages with a failed test
	now     time.Time            // time of the newest event

	passed, failed, packages int
	unfinished               []testName
	broken                   []string // packages that failed without a failed test
	skipped                  []skip
	leftOut                  []skip // parts of tests, see testtarget.LeftOut
	took                     []tookTest
}

// tookTest is a test that took at least tookFrom seconds; its subtests count as parts of it.
type tookTest struct {
	testName
	seconds float64
}

// Bounds of the list of slow tests.
const (
	tookFrom = 10 // seconds
	tookMost = 20 // tests
)

type skip struct {
	testName
	reason string
}

func newReport(out io.Writer) *report {
	return &report{out: out, running: map[testName]*runningTest{}, started: map[string]time.Time{}, failing: map[string]bool{}}
}

// read follows a run of tests to its end.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.mu.Lock()
			r.line(line)
			r.mu.Unlock()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) line(line []byte) {
	var e testEvent
	if json.Unmarshal(line, &e) != nil || e.Action == "" {
		r.out.Write(line) // a message of the go command itself
		return
	}
	if !e.Time.IsZero() {
		r.now = e.Time
	}
	name := testName{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		io.WriteString(r.out, e.Output)
	case "start":
		r.started[e.Package] = e.Time
	case "run":
		r.test(name)
	case "pause", "cont":
		r.test(name).paused = e.Action == "pause"
	case "output":
		r.outputOf(name, e.Output)
	case "pass", "fail", "skip":
		if e.Test != "" {
			r.endTest(name, e.Action)
			if e.Elapsed >= tookFrom && !strings.Contains(e.Test, "/") {
				r.took = append(r.took, tookTest{name, e.Elapsed})
			}
		} else {
			r.endPackage(e.Package, e.Action)
		}
	}
}

// test returns what is known about a test that runs.
func (r *report) test(name testName) *runningTest {
	t, ok := r.running[name]
	if !ok {
		t = &runningTest{began: r.now}
		r.running[name] = t
	}
	return t
}

// outputOf keeps what a test prints until it is known whether it fails. What belongs to no test is printed at once.
func (r *report) outputOf(name testName, text string) {
	switch {
	case name.test == "" && text != "PASS\n":
		io.WriteString(r.out, text)
	case name.test != "":
		r.test(name).output.WriteString(text)
	}
}

// endTest notes the result of a test.
func (r *report) endTest(name testName, action string) {
	text := ""
	if t := r.running[name]; t != nil {
		text = t.output.String()
		delete(r.running, name)
	}
	for line := range strings.Lines(text) {
		_, reason, found := cutLeftOut(line)
		// The tests of live events run twice.
		if s := (skip{name, strings.TrimSpace(reason)}); found && !slices.Contains(r.leftOut, s) {
			r.leftOut = append(r.leftOut, s)
		}
	}
	switch action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
		r.failing[name.pkg] = true
		io.WriteString(r.out, text)
	case "skip":
		lines := reasonLines(text)
		if len(lines) > 0 {
			if before, _, found := cutLeftOut(lines[len(lines)-1]); found && before == "" {
				return
			}
		}
		r.skipped = append(r.skipped, skip{name, cmp.Or(strings.Join(lines, " "), "no reason given")})
	}
}

// cutLeftOut cuts a line by which a test says that it leaves something out.
func cutLeftOut(line string) (before, reason string, found bool) {
	for _, why := range []string{testtarget.LeftOut, testtarget.LeftOutEach, testtarget.LeftOutKube} {
		if before, reason, found = strings.Cut(line, why); found {
			return before, reason, true
		}
	}
	return "", "", false
}

// endPackage notes the result of a package. The tests of it that still run will never end: their output says why, with
// the panic and the stacks of all goroutines, which go test attributes to a test that ran.
func (r *report) endPackage(pkg, action string) {
	delete(r.started, pkg)
	r.packages++
	never := r.runningOf(pkg)
	for _, name := range never {
		t := r.running[name]
		delete(r.running, name)
		r.unfinished = append(r.unfinished, name)
		fmt.Fprintf(r.out, "\n--- NEVER ENDED: %s\n%s", name, t.output.String())
	}
	if action == "fail" && !r.failing[pkg] {
		r.broken = append(r.broken, pkg)
	}
	delete(r.failing, pkg)
}

// runningOf returns the tests of a package that run, those that began first before the others.
func (r *report) runningOf(pkg string) []testName {
	var names []testName
	for name := range r.running {
		if name.pkg == pkg {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b testName) int {
		if c := r.running[a].began.Compare(r.running[b].began); c != 0 {
			return c
		}
		return strings.Compare(a.test, b.test)
	})
	return names
}

// place is what t.Skip writes before the reason: "    file_test.go:12: ".
var place = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// reasonLines returns the lines of a skipped test's output that are not the test runner's. The reason is in the last of them, unless
// it has several lines.
func reasonLines(text string) (reason []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "=== ") || strings.HasPrefix(strings.TrimSpace(line), "--- ") {
			continue
		}
		reason = append(reason, strings.TrimSpace(place.ReplaceAllString(line, "")))
	}
	return reason
}

// targets says which Go releases the tests built their target programs with.
func targets(ran, all []string) string {
	if len(ran) == len(all) {
		return fmt.Sprintf("targets of all %s, Go %s to %s", english.Count(len(all), "release"), testtarget.Minor(all[0]), testtarget.Minor(all[len(all)-1]))
	}
	var names []string
	for _, r := range ran {
		names = append(names, testtarget.Minor(r))
	}
	return fmt.Sprintf("targets of Go %s; make test RELEASES=all has all %s", strings.Join(names, ", "), english.Count(len(all), "release"))
}

// finish prints the summary and reports whether all is well.
func (r *report) finish(strict bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pkg := range r.started { // the go command itself has ended early
		r.endPackage(pkg, "fail")
	}
	fmt.Fprintf(r.out, "\n%s passed, %d failed, %d skipped", english.Count(r.passed, "test"), r.failed, len(r.skipped))
	if n := len(r.unfinished); n > 0 {
		fmt.Fprintf(r.out, ", %d never ended", n)
	}
	if n := len(r.broken); n > 0 {
		fmt.Fprintf(r.out, ", %s failed without a failed test", english.Count(n, "package"))
	}
	fmt.Fprintln(r.out)
	fmt.Fprintln(r.out, targets(testtarget.Versions(), testtarget.AllVersions()))
	slices.SortStableFunc(r.took, func(a, b tookTest) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, s := range r.took[:min(len(r.took), tookMost)] {
		fmt.Fprintf(r.out, "took %3.0fs  %s\n", s.seconds, s.testName)
	}
	for _, s := range r.leftOut {
		fmt.Fprintf(r.out, "left out  %s: %s\n", s.testName, s.reason)
	}
	for _, s := range r.skipped {
		fmt.Fprintf(r.out, "skipped  %s: %s\n", s.testName, s.reason)
	}
	for _, name := range r.unfinished {
		fmt.Fprintf(r.out, "never ended  %s\n", name)
	}
	for _, pkg := range r.broken {
		fmt.Fprintf(r.out, "failed  %s: it timed out, crashed or did not build, see above\n", pkg)
	}
	ok := r.failed == 0 && len(r.broken) == 0 && len(r.unfinished) == 0
	if !ok {
		fmt.Fprintln(r.out, "FAIL")
	} else if strict && len(r.skipped) > 0 {
		fmt.Fprintln(r.out, "FAIL: with CI=true no test may be skipped")
		ok = false
	}
	return ok
}
