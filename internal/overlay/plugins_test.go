package overlay

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// agentLines returns the lines of a text that begin with one of the names.
func agentLines(text string) string {
	var lines []string
	for _, line := range strings.SplitAfter(text, "\n") {
		for _, name := range []string{"dep ", "own ", "agent ", "main ", "deferred", "panic:", "glti:"} {
			if strings.HasPrefix(line, name) {
				lines = append(lines, line)
			}
		}
	}
	return strings.Join(lines, "")
}

// TestGoAgents loads a Go agent. Its function InitGltiAgent runs before those packages of the program that the agent does not import
// are initialized, and can do what ordinary code does.
func TestGoAgents(t *testing.T) {
	testtarget.Needs(t, "gcc", "gcc")
	const loaded = "dep init\nagent init 1.0 true OK dep\nown init\nmain dep OK\n"
	for _, release := range built(t) {
		t.Run(release, func(t *testing.T) {
			host := buildProgram(t, release, true, "1", "./plugins", "-agents=plugin")
			agent := buildProgram(t, release, true, "1", "./goagent", "-buildmode=plugin")
			list := []struct{ does, way, status, want string }{
				{"", "", "exit status 0", loaded + "agent shutdown 0\n"},
				{"", "exit", "exit status 3", loaded + "agent shutdown 3\n"},
				{"", "panic", "exit status 2", loaded + "deferred\nagent shutdown 2\npanic: panic\n"},
				{"", "nil", "exit status 2", loaded + "agent shutdown 2\npanic: runtime error: invalid memory address or nil pointer dereference\n"},
				{"", "fatal", "exit status 2", loaded + "agent shutdown 2\n"},
				{"", "SIGQUIT", "exit status 2", loaded + "agent shutdown 131\n"},
				{"", "elsewhere", "exit status 2", loaded + "agent shutdown 2\npanic: elsewhere\n"},
				{"", "signal", "signal: terminated", loaded + "agent shutdown 143\n"},
				{"panics at init", "", "exit status 0", "dep init\nglti: agent $agent not loaded: it panicked: init of the agent\nown init\nmain dep OK\n"},
				{"panics", "", "exit status 0", "dep init\nagent init 1.0 true OK dep\nglti: agent $agent not loaded: it panicked: agent\nown init\nmain dep OK\n"},
				{"panics at shutdown", "exit", "exit status 3", loaded + "agent shutdown 3\nglti: agent $agent: ShutdownGltiAgent panicked: shutdown\n"},
			}
			if testtarget.Complete() {
				list = append(list, struct{ does, way, status, want string }{"hangs", "signal", "signal: terminated",
					loaded + "agent shutdown 143\nglti: agent $agent: ShutdownGltiAgent did not return within 5 seconds\n"})
			}
			for _, test := range list {
				var args []string
				if test.way != "" {
					args = []string{test.way}
				}
				t.Setenv("AGENT", test.does)
				status, stderr := runHost(t, host, agent, args...)
				if want := strings.ReplaceAll(test.want, "$agent", agent); status != test.status || agentLines(stderr) != want {
					t.Errorf("the agent %s, the program %q: %s\n%sexpected %s\n%s", test.does, test.way, status, stderr, test.status, want)
				}
			}
			t.Setenv("AGENT", "")
			native := buildAgent(t, "native")
			want := initLine("native", release) + loaded + "agent shutdown 0\nnative: shutdown 0\n"
			cmd := testcmd.Command(t, host)
			cmd.Env = append(os.Environ(), "GO_GLTI_AGENT="+agent+":"+native)
			if status, _, stderr := testcmd.Run(t, cmd); status != 0 || strings.ReplaceAll(stderr, "1.0 false OK", "1.0 true OK") != want {
				t.Errorf("status %d\n%sexpected\n%s", status, stderr, want)
			}
			goAgentRefused(t, release, host, agent)
		})
	}
}

// goAgentRefused loads Go agents that the program cannot load: they are built otherwise, or have another function. Each is one line.
func goAgentRefused(t *testing.T, release, host, agent string) {
	t.Helper()
	const other = `plugin was built with a different version of package [^ ]+ \(build both by the same loupe go, with the same flags\)`
	tiny := func(release string, patched bool, flags ...string) string {
		return buildProgram(t, release, patched, "1", "./tiny", append([]string{"-buildmode=plugin"}, flags...)...)
	}
	type refusal struct{ name, agent, want string }
	list := []refusal{
		{"another type", tiny(release, true), `InitGltiAgent is a func\(interface {}\); it must be a func\(\*glti\.GLTIEnv\)`},
		{"another machine", damagedAgent(t, agent, 18, 2, uint64(elf.EM_AARCH64)), "it is built for arm64, and the program for " + runtime.GOARCH},
		{"no version", withoutVersion(t, agent), "it is a Go plugin of an unknown Go version"},
	}
	if testtarget.Complete() { // the toolchain's packages are compiled for each
		older := supported()[0]
		if older == release {
			older = supported()[1]
		}
		list = append(list, []refusal{
			{"the go command", tiny(release, false), other},
			{"-trimpath", buildProgram(t, release, true, "1", "./goagent", "-buildmode=plugin", "-trimpath"), other},
			{"-race", tiny(release, true, "-race"), other},
			{"-gcflags", tiny(release, true, "-gcflags=all=-N -l"), other},
			{"another minor release", tiny(older, true), "it is a Go plugin built with go" + regexp.QuoteMeta(older) + ", and the program is built with go" + regexp.QuoteMeta(release) +
				` \(build both by the same loupe go\)`},
		}...)
	}
	for _, r := range list {
		want := regexp.MustCompile("^glti: agent " + regexp.QuoteMeta(r.agent) + ` not loaded: (plugin\.Open\("[^"]+"\): )?` + r.want + "\ndep init\nown init\nmain dep OK\n$")
		if status, stderr := runHost(t, host, r.agent); status != "exit status 0" || !want.MatchString(stderr) {
			t.Errorf("a plugin of %s: %s\n%sexpected\n%s", r.name, status, stderr, want)
		}
	}
	without := buildHost(t, release, true, "1")
	want := "glti: agent " + agent + " not loaded: it is a Go plugin, and package plugin is not linked into the program (build it by loupe go build -agents=plugin)\nmain\n"
	if status, stderr := runHost(t, without, agent); status != "exit status 0" || stderr != want {
		t.Errorf("without package plugin: %s\n%sexpected\n%s", status, stderr, want)
	}
}

// withoutVersion returns a copy of a plugin with a damaged Go version.
func withoutVersion(t *testing.T, agent string) string {
	t.Helper()
	text, err := os.ReadFile(agent)
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Replace(text, []byte("\xff Go buildinf:"), []byte("\xff no buildinf:"), -1)
	return write(t, filepath.Join(t.TempDir(), "damaged.so"), string(damaged))
}

// TestPackages checks the list of the toolchain's packages.
func TestPackages(t *testing.T) {
	for _, release := range built(t) {
		t.Run(release, func(t *testing.T) {
			tc := toolchain(t, release)
			got, err := tc.packages()
			if err != nil {
				t.Fatal(err)
			}
			has := map[string]bool{}
			for _, name := range got {
				has[name] = true
			}
			cmd := testcmd.Command(t, filepath.Join(tc.Root, "bin", "go"), "list", "std")
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), "GOTOOLCHAIN=local", "GOROOT=")
			out, err := testcmd.Combined(cmd)
			if err != nil {
				t.Fatalf("go list: %v\n%s", err, out)
			}
			for _, name := range strings.Fields(string(out)) {
				if !has[name] {
					t.Errorf("%s is not in the list", name)
				}
			}
			if has["cmd"] || has["cmd/go"] || has["main"] || has["."] || has[""] {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestLinkedAgent ends a static program that contains an agent in each way. The agent is informed before the program reports why it ends.
// The status is that of the program of the go command, and so is what the program reports.
func TestLinkedAgent(t *testing.T) {
	type end struct{ way, status, want string }
	ways := append(testtarget.Rare(t, end{"wedged", "signal: terminated", ""}), []end{
		{"", "exit status 0", "agent shutdown 0\n"},
		{"exit", "exit status 3", "agent shutdown 3\n"},
		{"exit twice", "exit status 4", "agent shutdown 4\n"},
		{"panic", "exit status 2", "agent shutdown 2\npanic: panic\n\ngoroutine 1 [running]:\nmain.main()\n"},
		{"nil", "exit status 2", "agent shutdown 2\npanic: runtime error: invalid memory address or nil pointer dereference\n[signal SIGSEGV: "},
		{"fatal", "exit status 2", "agent shutdown 2\nfatal error: sync: unlock of unlocked mutex\n"},
		{"map", "exit status 2", "agent shutdown 2\nfatal error: "}, // several goroutines may print "concurrent map writes" at the same time
		{"asleep", "exit status 2", "agent shutdown 2\nfatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1 [chan receive]:\nmain.main()\n"},
		{"Goexit", "exit status 2", "agent shutdown 2\nfatal error: no goroutines (main called runtime.Goexit) - deadlock!\n"},
		{"SIGTERM", "signal: terminated", "agent shutdown 143\n"},
		{"SIGQUIT", "exit status 2", "agent shutdown 131\nSIGQUIT: quit\n"},
		{"SIGSEGV", "exit status 2", "agent shutdown 139\nSIGSEGV: segmentation violation\n"},
		// No goroutine may run.
		{"overflow", "exit status 2", "runtime: goroutine stack exceeds 1000000000-byte limit\n"},
	}...)
	for _, release := range built(t) {
		t.Run(release, func(t *testing.T) {
			host := buildProgram(t, release, true, "0", "./linked")
			for _, test := range ways {
				var args []string
				if test.way != "" {
					args = []string{test.way}
				}
				t.Setenv("GODEBUG", map[bool]string{true: "asyncpreemptoff=1"}[test.way == "wedged"])
				status, stderr := runHost(t, host, "", args...)
				if want := "agent init 1.0\nmain OK\n" + test.want; status != test.status || !strings.HasPrefix(stderr, want) || strings.Count(stderr, "shutdown") > 1 {
					t.Errorf("%q: %s\n%sexpected %s\n%s", test.way, status, stderr, test.status, want)
				}
				if test.way == "map" && !strings.Contains(stderr, "concurrent map writes\n") {
					t.Errorf("%q: %s", test.way, stderr)
				}
			}
		})
	}
}
