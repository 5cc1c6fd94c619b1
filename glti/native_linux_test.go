package glti

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

// TestHeaderNumbers compares the constants of glti.h with those of the package.
func TestHeaderNumbers(t *testing.T) {
	text, err := os.ReadFile("include/glti.h")
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]int{}
	for _, match := range regexp.MustCompile(`(?m)^\tGLTI_(\w+) = (\d+),`).FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.Atoi(match[2])
		if err != nil {
			t.Fatal(err)
		}
		constants[strings.ReplaceAll(match[1], "_", "")] = n
	}
	want := map[string]int{"OK": 0, "UNAVAILABLE": 1, "INVALID": 2, "CLOSED": 3, "CLASSNONE": int(ClassNone), "CLASSA": int(ClassA), "CLASSB": int(ClassB),
		"CLASSC": int(ClassC)}
	for _, ev := range Events() {
		want["EV"+strings.ToUpper(ev.String())] = int(ev)
	}
	for _, kind := range Profiles() {
		want["PROFILE"+strings.ToUpper(kind.String())] = int(kind)
	}
	for name, n := range want {
		if got, ok := constants[name]; !ok || got != n {
			t.Errorf("%s is %d, want %d", name, got, n)
		}
	}
	if len(constants) != len(want) {
		t.Errorf("%d constants, want %d", len(constants), len(want))
	}
	if version := fmt.Sprintf("#define GLTI_VERSION_MAJOR %s\n", strings.Split(Version, ".")[0]); !strings.Contains(string(text), version) {
		t.Errorf("no line %q", version)
	}
}

// compile compiles a C source, with all warnings as errors.
func compile(t *testing.T, source, output string, flags ...string) {
	t.Helper()
	args := append([]string{"-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-I", "include", "-o", output, source}, flags...)
	cmd := exec.Command("cc", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}

// TestNativeAgent compiles the sample agent and lets a host load it, also one that lacks functions, and one of another version.
func TestNativeAgent(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("requires a C compiler: ", err)
	}
	agent, host := filepath.Join(t.TempDir(), "counter.so"), filepath.Join(t.TempDir(), "host")
	compile(t, "samples/counter/counter.c", agent, "-pedantic", "-shared", "-fPIC", "-fvisibility=hidden")
	compile(t, "testdata/host/host.c", host, "-ldl")
	var raw RawRecord
	layout := fmt.Sprintf("layout event %d %d %d %d %d %d %d\n", unsafe.Offsetof(raw.Event), unsafe.Offsetof(raw.P), unsafe.Offsetof(raw.Time), unsafe.Offsetof(raw.G),
		unsafe.Offsetof(raw.By), unsafe.Offsetof(raw.Args), unsafe.Sizeof(raw))
	for mode, want := range map[string][2]string{ // of standard output and error
		"new":   {"status 0\nflushed 1\n", "counter: exit code 3, goroutines created 2, ended 1\n"},
		"old":   {"status 1\n", "counter: the host lacks functions\n"},
		"other": {"status 2\n", "counter: requires version 1 of the interface\n"},
		"stock": {"status 1\n", "counter: RegisterTraceEvGoCreate: no hooks\n"},
	} {
		cmd := exec.Command(host, agent, mode)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		text, isLayout := strings.CutPrefix(string(out), layout)
		_, text, _ = strings.Cut(text, "\n") // the layout of the table
		if err != nil || !isLayout || text != want[0] || stderr.String() != want[1] {
			t.Errorf("%s: %v\n%s%s\nwant %s%s", mode, err, out, stderr.String(), layout, want)
		}
	}
}

// TestTableOnlyGrows fails if a change of glti.h is not an addition at the end of the table: members before the sizes of
// released versions keep their places.
func TestTableOnlyGrows(t *testing.T) {
	text, err := os.ReadFile("include/glti.h")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\nstruct glti_env {\n")
	table, _, _ = strings.Cut(table, "\n};\n")
	var members []string
	for _, match := range regexp.MustCompile(`(?m)^\t\w.*?(\w+)(?:\)\(.*)?;`).FindAllStringSubmatch(table, -1) {
		members = append(members, match[1])
	}
	released := strings.Fields("size version go_version host now capability register_event register_raw register_panic register_profile unregister " +
		"flush lost current get_local set_local resolve_symbol func_for_pc")
	if len(members) < len(released) || strings.Join(members[:len(released)], " ") != strings.Join(released, " ") {
		t.Errorf("members %q, want %q first", members, released)
	}
}
