package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// The examples of all help texts and of README.md are run by a shell as they are, except that
//
//   - the target orders is one that this test has started, as is the process 1234;
//   - a program that an example starts ends after programFor, and Ctrl-C comes after ctrlCAfter where an example goes on
//     until then; where these times are too short, they are doubled;
//   - for live targets, times above a second are a second, those of profiles too, and numbers above which something is chosen
//     are 0;
//   - go tool trace prints instead of serving, less is cat, sudo runs the command, and curl prints app.trace.
const (
	programFor = 4 * time.Second
	ctrlCAfter = 3 * time.Second
	// lateAfter is after how long it is logged where an example is that should have ended soon after Ctrl-C.
	lateAfter = 90 * time.Second
)

// substitutions are the rules for all examples, liveSubstitutions those for examples with a live target.
var (
	substitutions = []substitution{
		{`\b1234\b`, "$$TARGET"},
		{`(loupe [^|#]*[a-z0-9"'] |loupe [a-z]+ )orders( |$)`, "${1}$$NAME$2"},
		{`> (60|10000)\b`, "> 0"},
		{`--g 18,42`, "--g 1"},                        // IDs that there are
		{`requirementsMet \| not`, "requirementsMet"}, // they are all met where the tests run
	}
	liveSubstitutions = []substitution{{`\b([2-9]|[0-9]{2,})s\b|\b[0-9]+m\b`, "1s"}}
	// withoutDuration are the rules for examples that take ten seconds unless they say otherwise.
	withoutDuration = []substitution{{`loupe (allocs \$\w+|profile \$\w+ --type (wall|cpu|block|mutex|sched|alloc|create)\b)`, "$0 --duration 1s"}}
)

type substitution struct{ what, by string }

// untilCtrlC recognises examples that go on until Ctrl-C.
var untilCtrlC = regexp.MustCompile(`loupe (trace|top|record|spans) |mem .*--interval|demo --keep`)

// bounded recognises those of them that do not.
var bounded = regexp.MustCompile(`--duration| -n [0-9]| -- `)

// startsProgram recognises examples that start the program that they observe.
var startsProgram = regexp.MustCompile(` -- \./`)

// exclusive recognises examples that use engine inline, of which a target has one at a time.
var exclusive = regexp.MustCompile(`loupe allocs\b|--type alloc\b|--allocs\b`)

// elsewhere matches examples that build programs. TestVerbs of package overlay runs such commands.
var elsewhere = regexp.MustCompile(`loupe go (build|run|test|install|vet|list|overlay)\b`)

// shims replace commands that an example runs beside loupe.
var shims = map[string]string{
	// A loupe that Ctrl-C does not end prints its goroutines.
	"loupe": `exec timeout --foreground --preserve-status -s QUIT 120s timeout --foreground --preserve-status -s INT "$CTRL_C" "$LOUPE" "$@"`,
	"sudo":  `exec "$@"`,
	"less":  `exec cat`,
	"curl":  `exec cat app.trace`,
	"go":    `if [ "$1 $2" = "tool trace" ]; then shift 2; exec "$GO" tool trace -d=parsed "$@"; fi; exec "$GO" "$@"`,
}

// TestExamples runs the examples: each ends with exit status 0 and has an output.
func TestExamples(t *testing.T) {
	examples := readmeExamples(t)
	commands := 0
	var collect func(args ...string)
	collect = func(args ...string) {
		commands++
		_, help, _ := run(t, append(args, "--help")...)
		examples = append(examples, section(help, "Examples:")...)
		for _, line := range section(help, "Available Commands:") {
			if name := strings.Fields(line)[0]; len(args) == 0 || args[0] != "completion" { // cobra writes those
				collect(append(args, name)...)
			}
		}
	}
	collect()
	if commands < 18 || len(examples) < 80 {
		t.Errorf("%d commands and %d examples were found", commands, len(examples))
	}
	examples = slices.DeleteFunc(examples, elsewhere.MatchString)
	var others, alone []string
	for _, example := range testtarget.Some(t, examples, 3) {
		if exclusive.MatchString(example) {
			alone = append(alone, example)
		} else {
			others = append(others, example)
		}
	}
	w := newExampleWorld(t)
	room := make(chan struct{}, w.together)
	var all sync.WaitGroup
	for _, example := range slices.Concat(others, alone) { // alone last, so that no others wait for them
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			w.run(t, example)
		})
	}
	all.Wait()
	for _, problem := range w.problems { // last, so that those who see the end of the output see them
		t.Error(problem)
	}
}

// section returns the lines below a heading of a help text.
func section(help, heading string) (lines []string) {
	_, rest, _ := strings.Cut(help, "\n"+heading+"\n")
	for line := range strings.Lines(rest) {
		if line = strings.TrimSpace(line); line == "" {
			break
		}
		lines = append(lines, line)
	}
	return lines
}

// readmeExamples returns the commands in README.md.
func readmeExamples(t *testing.T) (lines []string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^(?:    )?((?:sudo )?loupe [a-z].*)$`).FindAllStringSubmatch(string(text), -1) {
		lines = append(lines, m[1])
	}
	if len(lines) < 15 {
		t.Errorf("README.md has %d examples", len(lines))
	}
	return lines
}

// exampleWorld is what examples are run in.
type exampleWorld struct {
	files, bin, orders string
	env                []string
	together           int // examples that run at a time
	target             sync.RWMutex

	mu       sync.Mutex
	problems []string
}

func newExampleWorld(t *testing.T) *exampleWorld {
	t.Helper()
	w := &exampleWorld{files: t.TempDir(), bin: t.TempDir(), together: 8}
	if os.Geteuid() != 0 { // engine inline, of which a target has one at a time
		w.together = 1
	}
	name := fmt.Sprintf("orders-%d", os.Getpid())
	w.orders = filepath.Join(w.bin, name)
	if out, err := testcmd.Combined(testcmd.Within(t, 0, "go", "build", "-o", w.orders, "./testdata/orders")); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for shim, script := range shims {
		if err := os.WriteFile(filepath.Join(w.bin, shim), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	target := testcmd.Within(t, 0, w.orders)
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		target.Process.Kill()
		target.Wait()
	})
	goCommand, err := testcmd.Combined(testcmd.Command(t, "sh", "-c", "command -v go"))
	if err != nil {
		t.Fatal(err)
	}
	w.env = append(os.Environ(), "PATH="+w.bin+":"+os.Getenv("PATH"), "LOUPE="+loupe, "GO="+strings.TrimSpace(string(goCommand)),
		fmt.Sprintf("TARGET=%d", target.Process.Pid), "NAME="+name)
	w.record(t, target.Process.Pid)
	return w
}

// record makes the files that examples read.
func (w *exampleWorld) record(t *testing.T, target int) {
	t.Helper()
	file := func(name string) string { return filepath.Join(w.files, name) }
	for _, args := range [][]string{
		{"record", "-q", "-o", file("app.trace"), "--duration", "4s", fmt.Sprint(target)},
		{"tracefile", "-q", "text", "--exact", file("app.trace"), "-o", file("app.txt")},
		{"profile", "-q", "--type", "wall", "--duration", "1s", "-o", file("old.pb.gz"), fmt.Sprint(target)},
	} {
		if status, _, stderr := run(t, args...); status != 0 {
			t.Fatalf("%q: %s", args, stderr)
		}
	}
	trace, err := os.ReadFile(file("app.trace"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"old", "client", "server", "a", "b", "flight-1", "flight-2", "orders", "crashed"} {
		if name == "crashed" {
			trace = trace[:len(trace)*3/4]
		}
		if err := os.WriteFile(file(name+".trace"), trace, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs an example in a copy of the files.
func (w *exampleWorld) run(t *testing.T, example string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(w.files)); err != nil {
		t.Error(err)
		return
	}
	if err := os.Link(w.orders, filepath.Join(dir, "orders")); err != nil { // a process of this name is not the target
		t.Error(err)
		return
	}
	if exclusive.MatchString(example) {
		w.target.Lock()
		defer w.target.Unlock()
	} else {
		w.target.RLock()
		defer w.target.RUnlock()
	}
	var problem string
	for patience := 1; ; patience *= 2 {
		var more bool
		if problem, more = w.try(t, dir, example, patience); problem == "" || !more || patience == 8 {
			break
		}
	}
	if problem != "" {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.problems = append(w.problems, problem)
	}
}

// try runs an example once, with times that are multiples of the usual ones. It returns what is wrong. more reports that it may
// be that the times were too short: Ctrl-C came before Loupe had attached, the program ended, or nothing happened to the target.
func (w *exampleWorld) try(t *testing.T, dir, example string, patience int) (problem string, more bool) {
	t.Helper()
	command, ctrlC := example, time.Hour // testcmd is less patient
	rules := substitutions
	if !strings.Contains(example, "tracefile") {
		rules = append(rules[:len(rules):len(rules)], liveSubstitutions...)
	}
	if !strings.Contains(example, "--duration") && !strings.Contains(example, "--since-start") {
		rules = slices.Concat(rules, withoutDuration)
	}
	for _, s := range rules {
		command = regexp.MustCompile(s.what).ReplaceAllString(command, s.by)
	}
	if patience > 1 {
		command = regexp.MustCompile(`\b1s\b`).ReplaceAllString(command, fmt.Sprintf("%ds", patience))
	}
	asks := untilCtrlC.MatchString(example) && !bounded.MatchString(example)
	if asks {
		ctrlC = time.Duration(patience) * ctrlCAfter
	}
	before, began := sizes(dir), time.Now()
	cmd := testcmd.Command(t, "bash", "-c", "set -o pipefail; fpath=(- .)\n"+command)
	cmd.Dir = dir
	cmd.Env = slices.Concat(w.env, []string{ // other examples run at the same time
		fmt.Sprintf("CTRL_C=%.0fs", ctrlC.Seconds()), "ORDERS_FOR=" + (time.Duration(patience) * programFor).String(),
	})
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Start()
	if err == nil {
		if asks {
			late := time.AfterFunc(lateAfter, func() {
				t.Logf("%s has not ended %v after it began\n%s", example, lateAfter, testcmd.Where(cmd.Process.Pid))
			})
			defer late.Stop()
		}
		err = cmd.Wait()
	}
	written := sizes(dir) != before
	t.Logf("%5.1fs %s", time.Since(began).Seconds(), command)
	silent := out.Len() == 0 && !written && !strings.Contains(example, "source ") && !strings.Contains(example, "| cmp ")
	if err == nil && !silent {
		return "", false
	}
	problem = fmt.Sprintf("%s\nas %s\n%v, %d bytes, files written: %v, stderr:\n%s", example, command, err, out.Len(), written, errOut.String())
	unsampled := strings.Contains(errOut.String(), "no samples: ") // the program seldom runs
	return problem, err == nil || unsampled || startsProgram.MatchString(example) || asks && strings.Contains(errOut.String(), "loupe: interrupted")
}

// sizes lists the files of a directory.
func sizes(dir string) string {
	entries, _ := os.ReadDir(dir)
	var list strings.Builder
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			fmt.Fprintln(&list, e.Name(), info.Size(), info.ModTime())
		}
	}
	return list.String()
}
