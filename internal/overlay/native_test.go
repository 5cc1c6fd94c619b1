package overlay

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// buildNative compiles an agent of testdata/agents, or a sample, with a compiler for C or C++.
func buildNative(t *testing.T, compiler, source string, flags ...string) string {
	t.Helper()
	testtarget.Needs(t, compiler, compiler)
	agent := filepath.Join(t.TempDir(), filepath.Base(source)+".so")
	args := append([]string{"-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-pthread", "-I", includes, "-o", agent, source}, flags...)
	if out, err := testcmd.Combined(testcmd.Command(t, compiler, args...)); err != nil {
		t.Fatalf("%s: %v\n%s", compiler, err, out)
	}
	return agent
}

// runAgents runs a program with agents.
func runAgents(t *testing.T, program string, agents []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := testcmd.Command(t, program, args...)
	cmd.Env = append(os.Environ(), "GO_GLTI_AGENT="+strings.Join(agents, ":"))
	return testcmd.Run(t, cmd)
}

// TestNativeEvents compares what two native agents see with what a script does, in a program without package glti, and with what Go
// callbacks see in one that has them. Agents are compiled once for all releases.
func TestNativeEvents(t *testing.T) {
	book := filepath.Join("testdata", "agents", "book.c")
	agents := []string{buildNative(t, "gcc", book), buildNative(t, "gcc", book)}
	for _, release := range built(t) {
		for _, m := range agentModes() {
			t.Run(release+"/"+m.name, func(t *testing.T) {
				status, stdout, stderr := runAgents(t, buildProgram(t, release, true, "1", "./counts", m.flags...), agents)
				const end = "book: shutdown 2, panics 1 the end: 2"
				if status != 2 || stdout != "ok\n" || strings.Count(stderr, end) != 2 || !strings.HasPrefix(stderr, "panic: ") {
					t.Errorf("counts: status %d\n%s%s", status, stdout, stderr)
				}
				want := "book: shutdown 0, panics 0 , lost "
				if status, stdout, stderr := runAgents(t, buildProgram(t, release, true, "1", "./both", m.flags...), agents); status != 0 || stdout != "ok 2\n" ||
					strings.Count(stderr, want) != 2 || strings.Count(stderr, "\n") != 2 {
					t.Errorf("both: status %d\n%s%s", status, stdout, stderr)
				}
			})
		}
	}
}

// TestNativeProfiles compares the profiles of two native agents, which have different rates, with those of the runtime.
func TestNativeProfiles(t *testing.T) {
	source := filepath.Join("testdata", "agents", "profiles.c")
	agents := []string{buildNative(t, "gcc", source, "-DRATE=100"), buildNative(t, "gcc", source, "-DRATE=50")}
	for _, release := range built(t) {
		for _, m := range agentModes() {
			t.Run(release+"/"+m.name, func(t *testing.T) {
				status, stdout, stderr := runAgents(t, buildProgram(t, release, true, "1", "./profiles", m.flags...), agents)
				const end = "profiles: shutdown 0, called, snapshot 3, register 3\n"
				if status != 0 || stdout != "ok 2\n" || stderr != end+end {
					t.Errorf("status %d\n%s%s", status, stdout, stderr)
				}
			})
		}
	}
}

// TestNativeStorm runs the program storm with an agent whose callbacks do whatever callbacks may, and with one that is too slow.
func TestNativeStorm(t *testing.T) {
	agent := buildNative(t, "gcc", filepath.Join("testdata", "agents", "storm.c"))
	slow := buildNative(t, "gcc", filepath.Join("testdata", "agents", "lost.c"))
	for _, release := range built(t) {
		for _, m := range agentModes() {
			t.Run(release+"/"+m.name, func(t *testing.T) {
				t.Setenv("GOFLAGS", "")
				t.Setenv("GOWORK", "off")
				t.Setenv("CGO_ENABLED", "1")
				program := filepath.Join(t.TempDir(), "storm")
				args := append(append([]string{}, m.flags...), "-o", program, "./storm")
				if out, err := testcmd.Combined(goCommand(t, release, standin, "build", args...)); err != nil {
					t.Fatalf("go build: %v\n%s", err, out)
				}
				status, stdout, stderr := runAgents(t, program, []string{agent}, storm.String())
				if status != 0 || !strings.Contains("\n"+stdout, "\nok") || stderr != "storm: shutdown 0, flush 0, wrong 0, many calls, profiles\n" {
					t.Errorf("status %d\n%s%s", status, stdout, stderr)
				}
				// A slow machine may need more time until the buffers are full.
				for d := *storm; ; d *= 2 {
					status, stdout, stderr = runAgents(t, program, []string{slow}, d.String())
					if stderr != "lost: right, none\n" || d > 16**storm {
						break
					}
				}
				if status != 0 || !strings.Contains("\n"+stdout, "\nok") || stderr != "lost: right, some\n" {
					t.Errorf("slow: status %d\n%s%s", status, stdout, stderr)
				}
			})
		}
	}
}

// TestNativeSamples runs the sample agents in a program.
func TestNativeSamples(t *testing.T) {
	release := testtarget.Latest()
	host := buildHost(t, release, true, "1")
	samples := filepath.Join("..", "..", "glti", "samples")
	counter := buildNative(t, "gcc", filepath.Join(samples, "counter", "counter.c"), "-std=c11", "-fvisibility=hidden")
	status, stderr := runHost(t, host, counter, "exit", "3")
	var created, ended int
	_, err := fmt.Sscanf(stderr, "main\ncounter: exit code 3, goroutines created %d, ended %d\n", &created, &ended)
	if status != "exit status 3" || err != nil || created == 0 {
		t.Errorf("counter: %s\n%s", status, stderr)
	}
	blocked := buildNative(t, "g++", filepath.Join(samples, "blocked", "blocked.cc"), "-std=c++17", "-fvisibility=hidden")
	_, _, stderr = runAgents(t, buildProgram(t, release, true, "1", "./counts"), []string{blocked})
	for _, line := range []string{"condition variables", "receiving from a channel", "select", "sleep"} {
		var waits int
		_, rest, _ := strings.Cut(stderr, "\nblocked: "+line+": ")
		if _, err := fmt.Sscanf(rest, "%d waits, ", &waits); err != nil || waits == 0 || waits > 1000 {
			t.Errorf("blocked: %s: %v\n%s", line, err, stderr)
		}
	}
}

// TestNativeClosed loads an agent that cannot be initialized, and one that has been shut down while the program runs. Its functions return
// GLTI_CLOSED from then on, and its callbacks are not called. The first agent, which is shut down last, waits for the result.
func TestNativeClosed(t *testing.T) {
	host := buildProgram(t, testtarget.Latest(), true, "1", "./counts")
	source := filepath.Join("testdata", "agents", "closed.c")
	waits := buildNative(t, "gcc", source, "-DWAITS")
	for name, macro := range map[string]string{"refused": "-DREFUSES", "shut down": "-DREGISTERS"} {
		t.Run(name, func(t *testing.T) {
			agent := buildNative(t, "gcc", source, macro)
			status, stdout, stderr := runAgents(t, host, []string{waits, agent})
			if status != 2 || stdout != "ok\n" || !strings.HasSuffix(stderr, "closed: ok\n") {
				t.Errorf("status %d\n%s%s", status, stdout, stderr)
			}
		})
	}
}
