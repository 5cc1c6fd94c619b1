package overlay

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// An agentMode is how the host of agents is built.
type agentMode struct {
	name  string
	flags []string
}

// agentModes returns how the host is built: plainly, or with -overlay.matrix in all ways that contain cgo.
func agentModes() []agentMode {
	list := []agentMode{
		{name: "plain"},
		{name: "race", flags: []string{"-race"}},
		{name: "pie", flags: []string{"-buildmode=pie"}},
		{name: "external", flags: []string{"-ldflags=-linkmode=external"}},
		{name: "debug", flags: []string{"-gcflags=all=-N -l"}},
		{name: "trimpath", flags: []string{"-trimpath", "-ldflags=-s -w"}},
	}
	if !*matrix {
		list = list[:1]
	}
	return list
}

// includes has the header for agents.
var includes = filepath.Join("..", "..", "glti", "include")

// buildHost builds the host of agents, with the patched runtime or with that of the release.
func buildHost(t *testing.T, release string, patched bool, cgo string, flags ...string) string {
	t.Helper()
	return buildProgram(t, release, patched, cgo, map[string]string{"1": "./host", "0": "./plain"}[cgo], flags...)
}

// buildProgram builds a package of testdata/agents.
func buildProgram(t *testing.T, release string, patched bool, cgo, pkg string, flags ...string) string {
	t.Helper()
	t.Setenv("GOTOOLCHAIN", "go"+release)
	t.Setenv("GOFLAGS", "")
	t.Setenv("GOWORK", "off")
	t.Setenv("CGO_ENABLED", cgo)
	host := filepath.Join(t.TempDir(), "host")
	args := append([]string{"-C", filepath.Join("testdata", "agents")}, flags...)
	args = append(args, "-o", host, pkg)
	cmd := testcmd.Command(t, "go", append([]string{"build"}, args...)...)
	if patched {
		cache, err := CacheDir()
		if err != nil {
			t.Fatal(err)
		}
		c, err := Prepare(t.Context(), "build", args, cache)
		if err != nil {
			t.Fatal(err)
		}
		cmd = testcmd.Command(t, c.Path, c.Args[1:]...)
		cmd.Env = c.Env
	}
	if out, err := testcmd.Combined(cmd); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return host
}

// buildAgent compiles agent.c with macros to the file name.so.
func buildAgent(t *testing.T, name string, macros ...string) string {
	t.Helper()
	testtarget.Needs(t, "gcc", "gcc")
	agent := filepath.Join(t.TempDir(), name+".so")
	args := []string{"-Wall", "-Werror", "-shared", "-fPIC", "-I", includes, "-o", agent, filepath.Join("testdata", "agents", "agent.c"), fmt.Sprintf("-DNAME=%q", name)}
	for _, m := range macros {
		args = append(args, "-D"+m)
	}
	if out, err := testcmd.Combined(testcmd.Command(t, "gcc", args...)); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return agent
}

// runHost runs a host with agents. The status is as os.ProcessState prints it.
func runHost(t *testing.T, host, agents string, args ...string) (status, stderr string) {
	t.Helper()
	cmd := testcmd.Command(t, host, args...)
	if agents != "" {
		cmd.Env = append(os.Environ(), "GO_GLTI_AGENT="+agents)
	}
	_, _, stderr = testcmd.Run(t, cmd)
	return cmd.ProcessState.String(), stderr
}

// initLine is what an agent prints when it is initialized.
func initLine(name, release string) string {
	return fmt.Sprintf("%s: init, 1 thread, table 1.1 of go%s, complete\n", name, release)
}

// TestAgents loads two agents: both before the program has a second thread, and informs them of its end in the reverse order.
func TestAgents(t *testing.T) {
	a, b := buildAgent(t, "a"), buildAgent(t, "b")
	for _, release := range built(t) {
		for _, m := range agentModes() {
			t.Run(release+"/"+m.name, func(t *testing.T) {
				host := buildHost(t, release, true, "1", m.flags...)
				want := initLine("a", release) + initLine("b", release) + "main\nb: shutdown 0\na: shutdown 0\n"
				if status, stderr := runHost(t, host, a+"::"+b); status != "exit status 0" || stderr != want {
					t.Errorf("%s\n%sexpected\n%s", status, stderr, want)
				}
				if status, stderr := runHost(t, host, ""); status != "exit status 0" || stderr != "main\n" {
					t.Errorf("without agent: %s\n%s", status, stderr)
				}
			})
		}
	}
}

// ways are the ways in which a program ends, with the code that agents receive.
var ways = []struct {
	args string // separated by ", "
	code int
}{
	{"", 0},
	{"exit, 0", 0},
	{"exit, 3", 3},
	{"exit elsewhere", 5},
	{"exit twice", 6},
	{"syscall.Exit", 4},
	{"panic", 2},
	{"panic elsewhere", 2},
	{"panic twice", 2},
	{"nil", 2},
	{"fatal", 2},
	{"overflow", 2},
	{"signal, 1", 129},
	{"signal, 2", 130},
	{"signal, 3", 131},
	{"signal, 6", 134},
	{"signal, 8", 136},
	{"signal, 11", 139},
	{"signal, 15", 143},
	{"caught signal", 7},
	{"closed pipe", 141},
	{"C crash", 139},
	{"C crash elsewhere", 139},
	{"C abort", 134},
}

// TestAgentShutdown ends a program in each way. Its status is that of the program of the go command. The agent has been informed once,
// when the program has printed all that it prints. It has callbacks for all events, and waits for those of class C at the end.
func TestAgentShutdown(t *testing.T) {
	agent := buildAgent(t, "agent", "TRACES")
	for _, release := range built(t) {
		for _, m := range agentModes() {
			t.Run(release+"/"+m.name, func(t *testing.T) {
				stock := buildHost(t, release, false, "1", m.flags...)
				host := buildHost(t, release, true, "1", m.flags...)
				for _, w := range ways {
					var args []string
					if w.args != "" {
						args = strings.Split(w.args, ", ")
					}
					want, said := runHost(t, stock, "", args...)
					status, stderr := runHost(t, host, agent, args...)
					if status != want {
						t.Errorf("%q: %s with an agent, %s of the go command's program\n%s", w.args, status, want, stderr)
					}
					rest, ok := strings.CutPrefix(stderr, initLine("agent", release))
					rest, end := strings.CutSuffix(rest, fmt.Sprintf("agent: shutdown %d\n", w.code))
					if !ok || !end || strings.Contains(rest, "agent: ") || firstLines(rest) != firstLines(said) {
						t.Errorf("%q: expected code %d after\n%sgot\n%s", w.args, w.code, said, stderr)
					}
				}
			})
		}
	}
}

// firstLines returns what a program printed up to the first line with an address or the ID of a goroutine.
func firstLines(text string) string {
	text, _, _ = strings.Cut(text, "0x")
	text, _, _ = strings.Cut(text, "\ngoroutine ")
	return text[:strings.LastIndex(text, "\n")+1]
}

// TestAgentCrashes loads agents that crash.
func TestAgentCrashes(t *testing.T) {
	release := testtarget.Latest()
	host := buildHost(t, release, true, "1")
	good := buildAgent(t, "good")
	type crash struct{ macro, args, status, want string }
	list := []crash{
		{"CRASHES_IN_INIT", "", "exit status 2", "glti: agent $agent crashed in InitGltiAgent (signal 11)\nSIGSEGV: segmentation violation\n"},
		{"ABORTS_IN_INIT", "", "exit status 2", "glti: agent $agent crashed in InitGltiAgent (signal 6)\nSIGABRT: abort\n"},
		{"CRASHES_AT_LOAD", "", "exit status 2", "glti: agent $agent crashed in InitGltiAgent (signal 11)\nSIGSEGV: segmentation violation\n"},
		{"CRASHES", "", "exit status 0", "bad: shutdown 0\nglti: agent $agent: ShutdownGltiAgent crashed (signal 11)\ngood: shutdown 0\n"},
		{"CRASHES", "signal, 15", "signal: terminated", "bad: shutdown 143\nglti: agent $agent: ShutdownGltiAgent crashed (signal 11)\ngood: shutdown 143\n"},
		{"ABORTS", "exit, 3", "exit status 3", "bad: shutdown 3\nglti: agent $agent: ShutdownGltiAgent crashed (signal 06)\ngood: shutdown 3\n"},
		{"OVERFLOWS", "panic", "exit status 2", "bad: shutdown 2\nglti: agent $agent: ShutdownGltiAgent crashed (signal 11)\ngood: shutdown 2\n"},
	}
	list = append(list, testtarget.Rare(t,
		crash{"HANGS", "panic", "exit status 2", "bad: shutdown 2\nglti: agent $agent: ShutdownGltiAgent did not return within 5 seconds\n"},
	)...)
	for _, test := range list {
		t.Run(test.macro, func(t *testing.T) {
			bad := buildAgent(t, "bad", test.macro)
			var args []string
			if test.args != "" {
				args = strings.Split(test.args, ", ")
			}
			status, stderr := runHost(t, host, good+":"+bad, args...)
			if want := strings.ReplaceAll(test.want, "$agent", bad); status != test.status || !strings.Contains(stderr, want) {
				t.Errorf("%s\n%sexpected %s and\n%s", status, stderr, test.status, want)
			}
		})
	}
}

// TestAgentRefused loads what is not an agent. The program prints one line and goes on.
func TestAgentRefused(t *testing.T) {
	release := testtarget.Latest()
	host := buildHost(t, release, true, "1")
	dir := t.TempDir()
	good := buildAgent(t, "good")
	for name, test := range map[string]struct{ agent, want string }{
		"absent":      {filepath.Join(dir, "absent.so"), "No such file or directory"},
		"absent here": {"absent.so", "No such file or directory"},
		"directory":   {dir, "it is not a shared library"},
		"text":        {write(t, filepath.Join(dir, "text"), strings.Repeat("text", 100)), "it is not a shared library"},
		"empty":       {write(t, filepath.Join(dir, "empty"), ""), "it is not a shared library"},
		"header":      {write(t, filepath.Join(dir, "header"), elfHeader(t, good)), "/header: cannot read file data"},
		"arm64":       {damagedAgent(t, good, 18, 2, uint64(elf.EM_AARCH64)), "it is built for arm64, and the program for " + runtime.GOARCH},
		"32 bits":     {damagedAgent(t, good, elf.EI_CLASS, 1, uint64(elf.ELFCLASS32)), "it is not built for a 64-bit program"},
		"no sections": {damagedAgent(t, buildAgent(t, "bare", "NO_INIT"), 40, 8, 0), "it does not export the function InitGltiAgent"},
		"no init":     {buildAgent(t, "noinit", "NO_INIT"), "it does not export the function InitGltiAgent"},
		"unresolved":  {buildAgent(t, "unresolved", "UNRESOLVED"), "undefined symbol: no_such_function"},
		"variable":    {"/opt/$x.so", "unknown $x (there are $v for the Go version, $a for the architecture, $o for the operating system, and $$ for $)"},
		"dollar":      {"/opt/agent$", "unknown $ (there are $v for"},
	} {
		t.Run(name, func(t *testing.T) {
			status, stderr := runHost(t, host, test.agent)
			line, rest, _ := strings.Cut(stderr, "\n")
			if status != "exit status 0" || rest != "main\n" || !strings.HasPrefix(line, "glti: agent "+test.agent+" not loaded: ") || !strings.Contains(line, test.want) {
				t.Errorf("%s\n%sexpected %s", status, stderr, test.want)
			}
		})
	}
	// The others of a list are loaded.
	want := "glti: agent absent.so not loaded: No such file or directory\n" + initLine("good", release) + "main\ngood: shutdown 0\n"
	if _, stderr := runHost(t, host, "absent.so:"+good); stderr != want {
		t.Errorf("%sexpected\n%s", stderr, want)
	}
	refuses := buildAgent(t, "refuses", "REFUSES")
	want = initLine("refuses", release) + "glti: agent " + refuses + " not loaded: InitGltiAgent returned 1\nmain\n"
	if _, stderr := runHost(t, host, refuses); stderr != want {
		t.Errorf("%sexpected\n%s", stderr, want)
	}
	if _, stderr := runHost(t, host, buildAgent(t, "good", "NO_SHUTDOWN")); stderr != initLine("good", release)+"main\n" {
		t.Errorf("an agent without ShutdownGltiAgent: %s", stderr)
	}
}

// elfHeader returns the begin of a file.
func elfHeader(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text[:64])
}

// damagedAgent returns a copy of an agent with another value of size bytes at an offset.
func damagedAgent(t *testing.T, agent string, offset, size int, value uint64) string {
	t.Helper()
	text, err := os.ReadFile(agent)
	if err != nil {
		t.Fatal(err)
	}
	var bytes [8]byte
	binary.LittleEndian.PutUint64(bytes[:], value)
	copy(text[offset:], bytes[:size])
	return write(t, filepath.Join(t.TempDir(), "damaged.so"), string(text))
}

// TestAgentPath loads an agent whose path has names that are replaced, and one of the current directory.
func TestAgentPath(t *testing.T) {
	release := testtarget.Latest()
	host := buildHost(t, release, true, "1")
	dir := t.TempDir()
	name := fmt.Sprintf("agent_go%s_%s_%s_$.so", release, runtime.GOARCH, runtime.GOOS)
	if err := os.Rename(buildAgent(t, "agent"), filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{dir + "/", "./", ""} {
		cmd := testcmd.Command(t, host)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GO_GLTI_AGENT="+prefix+"agent_$v_$a_$o_$$.so")
		if _, _, stderr := testcmd.Run(t, cmd); !strings.HasPrefix(stderr, initLine("agent", release)) {
			t.Errorf("%q: %s", prefix, stderr)
		}
	}
}

// TestAgentsNative loads a native agent into a program that does not use cgo.
func TestAgentsNative(t *testing.T) {
	agent := buildAgent(t, "agent")
	for _, release := range built(t) {
		t.Run(release, func(t *testing.T) {
			host := buildProgram(t, release, true, "1", "./plain", "-agents=native")
			want := initLine("agent", release) + "main []\nagent: shutdown 0\n"
			if status, stderr := runHost(t, host, agent); status != "exit status 0" || stderr != want {
				t.Errorf("%s\n%sexpected\n%s", status, stderr, want)
			}
		})
	}
}

// TestAgentWithoutCgo sets GO_GLTI_AGENT for a program without cgo.
func TestAgentWithoutCgo(t *testing.T) {
	for _, release := range built(t) {
		t.Run(release, func(t *testing.T) {
			host := buildHost(t, release, true, "0")
			want := "glti: agent /opt/agent.so not loaded: native agents require a program for Linux that contains cgo (build it by loupe go build -agents=native)\nmain []\n"
			if status, stderr := runHost(t, host, "/opt/agent.so"); status != "exit status 0" || stderr != want {
				t.Errorf("%s\n%sexpected\n%s", status, stderr, want)
			}
		})
	}
}

// TestAgentSecure sets GO_GLTI_AGENT for a program that has the rights of another user.
func TestAgentSecure(t *testing.T) {
	root, err := os.Stat("/")
	if err != nil {
		t.Fatal(err)
	}
	if root.Mode().Perm()&0o005 != 0o005 { // the libraries of the program are unreadable for its user
		t.Skipf("other users may not enter the root directory here, its mode is %v", root.Mode().Perm())
	}
	host := setuid(t, buildHost(t, testtarget.Latest(), true, "1"))
	if host == "" {
		t.Skip("requires root, to give an executable to another user")
	}
	if status, stderr := runHost(t, host, buildAgent(t, "agent")); status != "exit status 0" || stderr != "main\n" {
		t.Errorf("%s\n%s", status, stderr)
	}
}

// TestAgentTable compares what the table of functions says with what the runtime says. A second agent shares the goroutines.
func TestAgentTable(t *testing.T) {
	testtarget.Needs(t, "gcc", "gcc")
	var agents []string
	for range 2 {
		agent := filepath.Join(t.TempDir(), "table.so")
		gcc := testcmd.Command(t, "gcc", "-Wall", "-Werror", "-shared", "-fPIC", "-pthread", "-I", includes, "-o", agent, filepath.Join("testdata", "agents", "table.c"))
		if out, err := testcmd.Combined(gcc); err != nil {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
		agents = append(agents, agent)
	}
	for _, release := range built(t) {
		for _, m := range agentModes() {
			t.Run(release+"/"+m.name, func(t *testing.T) {
				host := buildProgram(t, release, true, "1", "./table", m.flags...)
				cmd := testcmd.Command(t, host)
				if m.name == "trimpath" {
					cmd.Args = append(cmd.Args, "stripped")
				}
				cmd.Env = append(os.Environ(), "GO_GLTI_AGENT="+strings.Join(agents, ":"))
				if status, stdout, stderr := testcmd.Run(t, cmd); status != 0 || stdout != "ok\n" || stderr != "" {
					t.Errorf("status %d\n%s%s", status, stdout, stderr)
				}
			})
		}
	}
}

// TestHeader compares what the header for agents declares with what the patch of runtime/cgo does.
func TestHeader(t *testing.T) {
	header, err := os.ReadFile(filepath.Join(includes, "glti.h"))
	if err != nil {
		t.Fatal(err)
	}
	patch, err := patchFiles.ReadFile("patches/env.patch")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"glti_env", "glti_g", "glti_event", "glti_func", "glti_capability", "glti_stack"} {
		want, got := membersOf(t, string(header), name), membersOf(t, string(patch), name)
		if want != got {
			t.Errorf("the header has\n%s\nthe patch\n%s", want, got)
		}
	}
	if !strings.Contains(string(header), "#define GLTI_VERSION_MAJOR 1\n#define GLTI_VERSION_MINOR 1\n") || !strings.Contains(string(patch), "GLTI_VERSION = 1 << 16 | 1,") {
		t.Error("the header and the patch have different versions")
	}
}

// membersOf returns the members of a struct in a text, without comments.
func membersOf(t *testing.T, text, name string) string {
	t.Helper()
	_, text, ok := strings.Cut(text, "\nstruct "+name+" {\n")
	text, _, end := strings.Cut(text, "\n};\n")
	if !ok || !end {
		t.Fatalf("no struct %s", name)
	}
	return strings.Join(strings.Fields(regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(text, "")), " ")
}
