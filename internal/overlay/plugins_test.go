package overlay

import (
	"os"
	"path/filepath"
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

// goAgentRefused loads a Go agent that the program cannot load.
func goAgentRefused(t *testing.T, release, host, agent string) {
	t.Helper()
	other := buildProgram(t, release, true, "1", "./goagent", "-buildmode=plugin", "-trimpath")
	const rest = "dep init\nown init\nmain dep OK\n"
	status, stderr := runHost(t, host, other)
	line, printed, _ := strings.Cut(stderr, "\n")
	if status != "exit status 0" || printed != rest || !strings.HasPrefix(line, "glti: agent "+other+" not loaded: ") || !strings.Contains(line, "different version of package") {
		t.Errorf("a plugin with other flags: %s\n%s", status, stderr)
	}
	without := buildHost(t, release, true, "1")
	want := "glti: agent " + agent + " not loaded: it is a Go plugin, and package plugin is not linked into the program (build it by loupe go build -agents=plugin)\nmain\n"
	if status, stderr := runHost(t, without, agent); status != "exit status 0" || stderr != want {
		t.Errorf("without package plugin: %s\n%sexpected\n%s", status, stderr, want)
	}
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

// TestLinkedAgent runs a static program that contains an agent.
func TestLinkedAgent(t *testing.T) {
	for _, release := range built(t) {
		t.Run(release, func(t *testing.T) {
			host := buildProgram(t, release, true, "0", "./linked")
			for way, want := range map[string][2]string{
				"":           {"exit status 0", "agent shutdown 0\n"},
				"exit":       {"exit status 3", "agent shutdown 3\n"},
				"exit twice": {"exit status 4", "agent shutdown 4\n"},
				"panic":      {"exit status 2", "agent shutdown 2\npanic: panic\n"},
				"signal":     {"signal: terminated", "agent shutdown 143\n"},
			} {
				var args []string
				if way != "" {
					args = []string{way}
				}
				status, stderr := runHost(t, host, "", args...)
				if lines := "agent init 1.0\nmain OK\n" + want[1]; status != want[0] || agentLines(stderr) != lines {
					t.Errorf("%q: %s\n%sexpected %s\n%s", way, status, stderr, want[0], lines)
				}
			}
		})
	}
}
