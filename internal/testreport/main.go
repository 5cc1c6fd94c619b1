package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

func main() {
	r := newReport(os.Stdout)
	if err := r.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	if !r.finish(os.Getenv("CI") == "true") {
		os.Exit(1)
	}
}

// testEvent is one line of `go test -json`; `go doc test2json` describes it.
type testEvent struct {
	Action  string
	Package string
	Test    string
	Output  string
}

type testName struct{ pkg, test string }

// report collects what happened.
type report struct {
	out    io.Writer
	output map[testName]*strings.Builder // of tests that run

	passed, failed int
	brokenPackages int
	skipped        []skip
}

type skip struct {
	testName
	reason string
}

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[testName]*strings.Builder{}}
}

// read follows a run of tests to its end.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.line(line)
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
	if json.Unmarshal(line, &e) != nil {
		r.out.Write(line) // a message of the go command itself
		return
	}
	switch name := (testName{e.Package, e.Test}); e.Action {
	case "build-output":
		io.WriteString(r.out, e.Output)
	case "build-fail":
		r.brokenPackages++
	case "output":
		r.outputOf(name, e.Output)
	case "pass", "fail", "skip":
		if e.Test != "" {
			r.end(name, e.Action)
		} else if e.Action == "fail" {
			r.brokenPackages++
		}
	}
}

// outputOf keeps what a test prints until it is known whether it fails. What belongs to no test is printed at once.
func (r *report) outputOf(name testName, text string) {
	switch {
	case name.test == "" && text != "PASS\n":
		io.WriteString(r.out, text)
	case name.test != "":
		b, ok := r.output[name]
		if !ok {
			b = &strings.Builder{}
			r.output[name] = b
		}
		b.WriteString(text)
	}
}

// end notes the result of a test.
func (r *report) end(name testName, action string) {
	text := ""
	if b := r.output[name]; b != nil {
		text = b.String()
		delete(r.output, name)
	}
	switch action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
		io.WriteString(r.out, text)
	case "skip":
		r.skipped = append(r.skipped, skip{name, skipReason(text)})
	}
}

// place is what t.Skip writes before the reason: "    file_test.go:12: ".
var place = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// skipReason finds the reason in a skipped test's output: the lines that are not the test runner's.
func skipReason(text string) string {
	var reason []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "=== ") || strings.HasPrefix(strings.TrimSpace(line), "--- ") {
			continue
		}
		reason = append(reason, strings.TrimSpace(place.ReplaceAllString(line, "")))
	}
	if len(reason) == 0 {
		return "no reason given"
	}
	return strings.Join(reason, " ")
}

// finish prints the closing list and reports whether all is well.
func (r *report) finish(strict bool) bool {
	fmt.Fprintf(r.out, "\n%d tests passed, %d failed, %d skipped\n", r.passed, r.failed, len(r.skipped))
	for _, s := range r.skipped {
		fmt.Fprintf(r.out, "skipped  %s %s: %s\n", s.pkg, s.test, s.reason)
	}
	ok := r.failed == 0 && r.brokenPackages == 0
	if !ok {
		fmt.Fprintln(r.out, "FAIL")
	} else if strict && len(r.skipped) > 0 {
		fmt.Fprintln(r.out, "FAIL: with CI=true no test may be skipped")
		ok = false
	}
	return ok
}
